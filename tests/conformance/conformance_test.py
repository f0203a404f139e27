#!/usr/bin/env python3
"""Runs the program over data that other programs made, and requires exactly what it is known to reach.

usage: conformance_test.py THAW default|portable|avx2|dotprod

The data and its checker are found through THAW_CONFORMANCE_DIR (default: ../shared/conformance beside
the project), the real model through THAW_MODEL. Exit status 77, skipped, without the data or on a CPU
that lacks the kernels. What must pass stands here, so that a change that reaches more, or less, says so.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SKIPPED = 77

# Every tiny model whose architecture is implemented; all others must be refused, not answered wrongly.
MODELS = {
    "afmoe", "apertus", "arcee", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom",
    "chatglm", "cohere2", "command-r", "command-r-plus", "dbrx", "deepseek", "deepseek2-lite",
    "deepseek2-mha", "deepseek3", "deepseek32", "dots1", "ernie4_5", "ernie4_5-moe", "exaone",
    "exaone-moe", "exaone4", "exaone4-32b", "falcon-40b", "falcon-7b", "falcon-h1", "falcon-mamba",
    "gemma", "gemma2", "gemma3", "gemma3n", "gemma4-e2b", "gemma4-moe", "glm-dsa", "glm4",
    "glm4moe", "glm4moe-mtp", "gpt-oss", "gpt2", "gptneox", "gptneox-seq", "granite",
    "granitehybrid", "granitehybrid-moe", "granitemoe", "grok", "hunyuan-dense", "hunyuan-moe",
    "internlm2", "jamba", "kimi-linear", "lfm2", "lfm2moe", "llama", "llama-headdim",
    "llama-linear-rope", "llama-mha", "llama-tied", "llama-yarn", "llama3-ropefreqs",
    "llama4-maverick", "llama4-scout", "mamba", "mamba2", "mimo2", "minicpm", "minicpm3",
    "minimax-m2", "mistral3", "mistral4", "mixtral", "mpt", "nemotron", "nemotron_h",
    "nemotron_h_moe", "nemotron_h_moe-latent", "olmo", "olmo2", "olmo3", "olmoe", "orion", "phi2",
    "phi3", "phi3-longrope", "phi3-shortrope", "phimoe", "qwen2", "qwen2-tied", "qwen2moe",
    "qwen2vl", "qwen3", "qwen3-tied", "qwen35", "qwen35-mtp", "qwen35-tied", "qwen35moe",
    "qwen3moe", "qwen3next", "qwen3next-legacy", "qwen3vl", "qwen3vlmoe", "rwkv7", "seed_oss",
    "smallthinker", "smollm3", "stablelm", "stablelm2-12b", "starcoder", "starcoder2", "step35",
}

# Cases of chat templates that render as Jinja2 does.
TEMPLATES_AT_LEAST = 60

# "ok    models/llama  relative RMSE ..." and "FAIL  models/olmo  exit 1: thaw: ...".
VERDICT = re.compile(r"^(ok|FAIL)\s+models/(\S+)\s*(.*)$", re.MULTILINE)
COUNT = re.compile(r"^(\w+)\s+(\d+) of (\d+)$", re.MULTILINE)
SKIP = re.compile(r"^SKIP\s+(\w+)/.*$", re.MULTILINE)
REFUSAL = re.compile(r"exit 1: (?!\[\])\S")  # an empty message comes out as []


def run_checker(checker, thaw, sections, kernels, *options):
    """Its output. `options` stand before the `--` that separates what goes to the program."""
    command = [sys.executable, "-B", str(checker), thaw, "--only", ",".join(sections), *options]
    if kernels != "default":
        command += ["--", "--kernels", kernels]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def check_all_pass(output, sections):
    counts = {section: (int(good), int(total)) for section, good, total in COUNT.findall(output)}
    skipped = {m.group(1): m.group(0) for m in SKIP.finditer(output)}
    for section in sections:
        if section == "real" and section in skipped:  # THAW_MODEL is not the model of the goldens
            print(skipped[section])
            continue
        good, total = counts.get(section, (0, 0))
        print(f"{section}: {good} of {total}")
        if total == 0 or good != total:
            yield f"{section}: {good} of {total} agree; all must"


def check_models(output):
    verdicts = {name: (word == "ok", why) for word, name, why in VERDICT.findall(output)}
    passing = {name for name, (ok, _) in verdicts.items() if ok}
    print(f"models: {len(passing)} of {len(verdicts)} agree")
    for name in sorted(MODELS - passing):
        yield f"models/{name} must agree: {verdicts.get(name, (False, 'is not there'))[1]}"
    for name in sorted(passing - MODELS):
        yield f"models/{name} agrees, but is not on the list in {Path(__file__).name}: add it"
    for name, (ok, why) in sorted(verdicts.items()):
        if not ok and name not in MODELS and not REFUSAL.match(why):
            yield f"models/{name} must be refused with exit 1 and a message: {why or 'no message'}"


def check_templates(output):
    good = sum(int(good) for section, good, _ in COUNT.findall(output) if section == "templates")
    print(f"templates: {good}, at least {TEMPLATES_AT_LEAST}")
    if good < TEMPLATES_AT_LEAST:
        yield f"templates: {good} agree; {TEMPLATES_AT_LEAST} did before"


# What kernels need, as /proc/cpuinfo names it.
NEEDED = {"avx2": "avx2", "dotprod": "asimddp"}


def cpu_lacks(feature):
    return feature not in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()


def main():
    thaw, kernels = sys.argv[1:]
    stated = os.environ.get("THAW_CONFORMANCE_DIR")
    data = Path(stated) if stated else PROJECT.parent / "shared" / "conformance"
    checker = data / "check.py"
    if not checker.is_file():
        print(f"SKIP: {data} is not there")
        return SKIPPED
    if kernels in NEEDED and cpu_lacks(NEEDED[kernels]):
        print(f"SKIP: this CPU has no {NEEDED[kernels]}")
        return SKIPPED

    sections = ["quantized", "real"]
    if kernels == "default":
        sections += ["tokenizers", "types"]
    model = os.environ["THAW_MODEL"]
    output = run_checker(checker, thaw, sections, kernels, "--model", model)
    models_output = run_checker(checker, thaw, ["models"], kernels, "-v")
    failures = [*check_all_pass(output, sections), *check_models(models_output)]
    if kernels == "default":
        failures += check_templates(run_checker(checker, thaw, ["templates"], kernels))
    if failures:
        print(output)
        print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
