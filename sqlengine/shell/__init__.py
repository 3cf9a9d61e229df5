"""`sqlengine shell`: SQL at a prompt.

    command       the arguments; terminal, pipe, files, init file
    reader        text to statements and commands of the shell
    executor      carries them out, and shows what comes out
    meta          the commands: `\\d`, `\\x`, HELP, QUIT, ...
    grid, record  results as text
    interrupt     Ctrl-C ends a statement, not the shell
    prompt        the prompt of a terminal: editing, colours, completion, history
    highlight     colours of SQL
    completion    what may be typed next
    live, top     full screens: results that change, jobs and operators

Only `command` and what it needs for pipes is free of prompt_toolkit; nothing outside this room imports from it, so that
`sqlengine run` and `import sqlengine` do not pay for it.
"""
