"""The pipelines of sql_examples/pipelines, with what they need: `python -m tests.pipelines NAME` starts one."""
