"""`sqlengine shell`: SQL at a prompt.

    command       the arguments; terminal, pipe, files, init file
    reader        text to statements and commands of the shell
    executor      carries them out, and shows what comes out
    meta          the commands: `\\d`, `\\x`, HELP, QUIT, ...
    screen, grid  where results go, and how rows become lines
    interrupt     Ctrl-C ends a statement, not the shell
    live_rows     a table while it changes; a list of changes
    grid_view     a window on a table that is larger than the screen
    top           jobs and operators as lines
    suggest       what may be typed next, from the parser, the catalog and the `scope` of the place
    prompt        the prompt of a terminal, with `highlight` and `completion`
    full_screen   the windows of results, live results and TOP

The last two lines import prompt_toolkit, the others do not, so that pipes need nothing of it. Nothing outside this room
imports from it but `sqlengine.cli`, by name and when the command is `shell`:
`sqlengine run` and `import sqlengine` do not pay for it.
"""
