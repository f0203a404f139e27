"""thaw doctor: what the machine has, what is chosen and why, and what slows runs. Whether a
neighbour is noticed is no matter of a test here: it comes and goes (src/cli/slowdowns_test.cc)."""
import json
import os
import shutil
import tempfile

import pytest

import small_gguf


@pytest.fixture(autouse=True)
def own_rates(tmp_path_factory, monkeypatch):
    """A folder for kept rates that is nobody else's."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "thaw" / "rates"


def test_doctor_knows_the_machine(thaw):
    report = json.loads(thaw.results("doctor", "--json"))
    assert report["threads"] == len(os.sched_getaffinity(0))
    assert "portable" in report["kernels_available"]
    assert report["kernels"] in report["kernels_available"]
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        assert report["memory_total_bytes"] == int(meminfo.readline().split()[1]) * 1024
    assert 0 < report["default_budget_bytes"] < report["memory_total_bytes"]
    assert report["reader"] in ("io_uring", "pread")
    text = thaw.results("doctor")
    assert report["kernels"] in text and "huge pages" in text and "by " + report["reader"] in text
    assert report["codec_backends"] == ["cpu"]
    assert report["decoder"] in ("avx512vbmi2", "avx2", "portable")
    assert f"by {report['decoder']} (back ends: cpu)" in text
    if report["reader"] == "pread":
        assert any("io_uring" in warning for warning in report["warnings"])


def test_doctor_and_statistics_agree_on_the_way_of_reading(thaw, model, tmp_path):
    stats = tmp_path / "stats.json"
    thaw.results("run", model, "-p", "Hi", "-n", "1", "--quiet", "--stats-json", stats)
    report = json.loads(thaw.results("doctor", model, "--json"))
    if report["model"]["direct_io"]:
        assert json.loads(stats.read_text())["cache"]["reader"] == report["reader"]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no file system in memory")
def test_a_model_without_direct_reads_is_read_and_warned_of(thaw, model, tmp_path):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        copy = os.path.join(folder, "m.gguf")
        shutil.copyfile(model, copy)
        report = json.loads(thaw.results("doctor", copy, "--json"))["model"]
        assert report["direct_io"] is False
        assert len(report["warnings"]) == 1 and copy in report["warnings"][0]
        assert "direct reads  no" in thaw.results("doctor", copy)
        stats = tmp_path / "stats.json"
        outcome = thaw.run("run", copy, "-p", "Hi", "-n", "2", "--stats", "--stats-json", stats)
        assert "no direct reads" in outcome.err, "the statistics say why reading goes another way"
        cache = json.loads(stats.read_text())["cache"]
        assert cache["reader"] == "pread" and cache["disk_bytes"] == 0
    assert json.loads(thaw.results("doctor", model, "--json"))["model"]["warnings"] == []


def test_doctor_knows_a_model(thaw, model, tmp_path):
    report = json.loads(thaw.results("doctor", model, "--json"))["model"]
    assert report["supported"] is True
    assert report["architecture"] == "llama"
    assert sum(report["weight_bytes_by_type"].values()) == report["weight_bytes"]
    strange = small_gguf.write(tmp_path / "m.gguf", {"general.architecture": "perceptron"})
    report = json.loads(thaw.results("doctor", strange, "--json"))["model"]
    assert report["supported"] is False and "perceptron" in report["problem"]
    assert "no: " in thaw.results("doctor", strange)


def test_doctor_says_why_the_kernels_are_chosen(thaw):
    report = json.loads(thaw.results("doctor", "--json"))
    tables = report["kernel_tables"]
    names = [table["name"] for table in tables]
    assert names[-1] == "portable" and tables[-1]["needs"] == []
    better = tables[:names.index(report["kernels"])]
    for table in tables:
        assert table["available"] == (table["missing"] == [] and not table["refused"])
        assert table["missing"] == [f for f in table["needs"] if f not in report["cpu_features"]]
    if better:
        for table in better:
            name, missing = table["name"], ", ".join(table["missing"])
            why_not = (f"{name} is not for CPUs of this maker" if table["refused"] else
                       f"{name} would be better but needs {missing}")
            assert why_not in report["kernels_reason"]
    else:
        assert report["kernels_reason"].startswith("the best of this build")
    assert report["kernels_reason"] in thaw.results("doctor")


def test_doctor_measures_once_and_keeps_it(thaw, model, own_rates):
    first = json.loads(thaw.results("doctor", model, "--json"))["rates"]
    assert first["memory_gb_per_s"] > 0 and first["disk_gb_per_s"] > 0
    assert first["kept_in"] == first["problem"] == ""
    assert own_rates.is_file()
    again = json.loads(thaw.results("doctor", model, "--json"))["rates"]
    assert again["kept_in"] == str(own_rates)
    for rate in ["memory_gb_per_s", "disk_gb_per_s", "memory_buffer_bytes"]:
        assert again[rate] == first[rate]
    text = thaw.results("doctor", model)
    assert "memory rate" in text and "disk rate" in text and "int8 rate" in text
    assert "kept in " + str(own_rates) in text
    anew = json.loads(thaw.results("doctor", model, "--json", "--remeasure"))["rates"]
    assert anew["kept_in"] == "" and anew["memory_gb_per_s"] > 0


def test_doctor_has_an_int8_rate_where_the_cpu_has_the_instruction(thaw):
    report = json.loads(thaw.results("doctor", "--json"))
    rates = report["rates"]
    assert rates["disk_gb_per_s"] is None, "no file, no disk"
    if {"avx2", "asimddp"} & set(report["cpu_features"]):
        assert rates["int8_tops"] > 0
        assert rates["int8_instruction"].startswith(("tdp", "vp", "sdot", "smmla"))
    else:
        assert rates["int8_tops"] is None and rates["int8_instruction"] is None


def test_doctor_tells_how_much_of_the_cpus_there_is(thaw):
    cpus = json.loads(thaw.results("doctor", "--json"))["cpus"]
    assert cpus["allowed"] == len(os.sched_getaffinity(0))
    assert cpus["cores"] is None or 1 <= cpus["cores"] <= cpus["allowed"]
    assert cpus["load_average"] >= 0 and cpus["used_by_others"] >= 0
    assert 0 <= cpus["loop_median_excess"] <= cpus["loop_p90_excess"]


def test_doctor_warns_of_more_threads_than_cpus(thaw):
    cpus = len(os.sched_getaffinity(0))
    report = json.loads(thaw.results("doctor", "--json", "-t", cpus + 1))
    assert report["threads"] == cpus + 1
    assert any(f"{cpus + 1} threads on {cpus} CPUs" in warning for warning in report["warnings"])
    assert f"{cpus + 1} threads on {cpus} CPUs" in thaw.results("doctor", "-t", cpus + 1)


def test_doctor_does_without_a_folder_for_rates(thaw, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    rates = json.loads(thaw.results("doctor", "--json"))["rates"]
    assert rates["memory_gb_per_s"] > 0 and rates["kept_in"] == ""
