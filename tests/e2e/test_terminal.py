"""Progress is drawn for people and for nobody else."""
from program import Terminal

WIPE = "\x1b[K"


def test_a_terminal_shows_the_load_and_wipes_it(thaw, model):
    with Terminal(thaw, "run", model, "-p", "Hi", "-n", "2", "--temp", "0", "--preload") as terminal:
        seen, status = terminal.finish()
    assert status == 0
    assert "loading [" in seen and WIPE in seen
    assert seen.rindex(WIPE) < seen.index("prompt "), "the bar is gone before the answer"


def test_without_a_preload_there_is_nothing_to_wait_for(thaw, model):
    with Terminal(thaw, "run", model, "-p", "Hi", "-n", "2", "--temp", "0") as terminal:
        seen, status = terminal.finish()
    assert status == 0
    assert "loading" not in seen


def test_no_progress_and_quiet_draw_nothing(thaw, model):
    for option in ("--no-progress", "--quiet"):
        with Terminal(thaw, "run", model, "-p", "Hi", "-n", "2", "--preload", option) as terminal:
            seen, status = terminal.finish()
        assert status == 0
        assert "loading" not in seen and WIPE not in seen


def test_a_pipe_gets_no_bar(thaw, model):
    outcome = thaw.run("run", model, "-p", "Hi", "-n", "2", "--preload")
    assert outcome.status == 0
    assert "loading" not in outcome.err and "\x1b" not in outcome.out + outcome.err
