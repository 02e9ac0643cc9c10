"""The command with a fault in it; run in processes of their own, so it must be importable."""

from fault_campaigns.commands import run_command


def losing_rows(arguments, output):
    """A run that was resumed puts a table in place from which the last verdict is missing."""
    from poolsieve.moderation import verdict_files
    from poolsieve.moderation.verdict_files import VerdictLog

    resume, write = VerdictLog.resume.__func__, verdict_files.write_verdicts

    def remembering(cls, *arguments):
        log = resume(cls, *arguments)
        if log.done:
            verdict_files.write_verdicts = lambda rows, *rest, **options: write(
                list(rows)[:-1], *rest, **options
            )
        return log

    VerdictLog.resume = classmethod(remembering)
    run_command(arguments, output)


def forgetting_rows_in_the_log(arguments, output):
    """A resumed run finds a verdict less than there was, which the program itself notices."""
    from poolsieve.moderation.verdict_files import VerdictLog

    resume = VerdictLog.resume.__func__

    def losing(cls, *arguments):
        log = resume(cls, *arguments)
        if log.done:
            lines = log.path.read_bytes().splitlines(keepends=True)
            log.path.write_bytes(b"".join(lines[:1] + lines[2:]))
        return log

    VerdictLog.resume = classmethod(losing)
    run_command(arguments, output)


def unexpected_error(arguments, output):
    """Loading a bundle fails in a way that nobody thought of."""
    from poolsieve import bundles

    def failing(path):
        raise KeyError("weights")

    bundles.load_bundle = failing
    run_command(arguments, output)


def crash(arguments, output):
    """The process dies."""
    import os
    import signal

    output.write_text("")
    os.kill(os.getpid(), signal.SIGSEGV)
