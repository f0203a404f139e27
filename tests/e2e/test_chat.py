"""thaw chat: a conversation through a pipe, and as a person at a terminal has it."""
import json

from program import Terminal, finish, read_until

GREEDY = ("--temp", "0", "-n", "24")


def history(thaw, model, tmp_path, *questions):
    """The answers to questions that are asked one after the other, each by a run of its own."""
    messages, answers = [], []
    for question in questions:
        messages.append({"role": "user", "content": question})
        path = tmp_path / "messages.json"
        path.write_text(json.dumps(messages))
        answers.append(thaw.results("run", model, *GREEDY, "--quiet", "--messages", path))
        messages.append({"role": "assistant", "content": answers[-1][:-1]})
    return answers


def test_a_script_gets_answers_and_nothing_else(thaw, model, tmp_path):
    outcome = thaw.run("chat", model, *GREEDY, stdin="My name is Ada.\n\n/stats\nWhat is my name?\n")
    assert outcome.status == 0
    assert outcome.err.startswith("model "), "/stats answers on stderr"
    first, second = history(thaw, model, tmp_path, "My name is Ada.", "What is my name?")
    assert outcome.out == first + second, "what is remembered is as good as what is computed again"
    assert second != thaw.results("chat", model, *GREEDY, stdin="What is my name?\n")


def test_the_second_question_computes_only_what_is_new(thaw, model, tmp_path):
    path = tmp_path / "stats.json"
    thaw.results("chat", model, *GREEDY, "--stats-json", path,
                 stdin="My name is Ada.\nWhat is my name?\n")
    report = json.loads(path.read_text())
    assert report["reused_tokens"] > 30, "the first question and its answer"
    assert report["reused_tokens"] < report["prompt_tokens"]


def test_reset_forgets(thaw, model):
    fresh = thaw.results("chat", model, *GREEDY, stdin="What is my name?\n")
    after = thaw.run("chat", model, *GREEDY, stdin="My name is Ada.\n/reset\nWhat is my name?\n")
    assert after.out.endswith(fresh)
    assert "starts anew" in after.err


def test_a_system_message_is_heard(thaw, model):
    plain = thaw.results("chat", model, *GREEDY, stdin="Hello\n")
    assert thaw.results("chat", model, *GREEDY, "--system", "You are a pirate.", stdin="Hello\n") != plain


def test_a_full_context_is_said_and_survived(thaw, model):
    outcome = thaw.run("chat", model, "--temp", "0", "-n", "4", "-c", "64",
                       stdin="long words " * 40 + "\n/reset\nHello\n")
    assert outcome.status == 0
    assert "the context holds 64" in outcome.err and "/reset" in outcome.err
    assert outcome.out.strip(), "the question after it is answered"


def test_unknown_commands_are_not_sent_to_the_model(thaw, model):
    outcome = thaw.run("chat", model, stdin="/dance\n/help\n")
    assert outcome.status == 0
    assert outcome.out == ""
    assert "no command /dance" in outcome.err and "/reset" in outcome.err


def test_a_person_has_a_prompt_and_ends_with_ctrl_d(thaw, model, tmp_path):
    _, second = history(thaw, model, tmp_path, "My name is Ada.", "What is my name?")
    with Terminal(thaw, "chat", model, *GREEDY) as terminal:
        terminal.wait_for("> ")
        terminal.type("My name is Ada.\n")
        terminal.wait_for("\n> ")
        terminal.type("What is my name?\n")
        terminal.wait_for("What is my name?\n")
        assert terminal.wait_for("\n> ") == second + "> "
        terminal.type("\x04")
        assert terminal.finish()[1] == 0


def test_ctrl_c_stops_the_answer_and_not_the_program(thaw, model):
    with Terminal(thaw, "chat", model, "--temp", "0", "--repeat-penalty", "1.3") as terminal:
        terminal.wait_for("> ")
        terminal.type("Write a very long story about the sea.\n")
        terminal.wait_for("sea.\n")
        terminal.wait_for(" ")  # the answer has begun
        terminal.type("\x03")
        terminal.wait_for("(stopped)\n> ")
        terminal.type("\x03")  # nothing to stop: it says how to end
        terminal.wait_for("Ctrl+D ends.\n> ")
        terminal.type("/stats\n")
        assert "cancelled" in terminal.wait_for("reading ")
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert terminal.finish()[1] == 0


def test_termination_ends_a_conversation(thaw, model):
    process = thaw.start("chat", model, *GREEDY)
    process.stdin.write(b"Hello\n")
    read_until(process.stdout, b"\n")
    process.terminate()
    assert finish(process).status == 130
