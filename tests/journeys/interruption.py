#!/usr/bin/env python3
"""A long run that is interrupted, and goes on as if nothing had happened.

The user presses Ctrl-C, goes on with `--resume`, the machine sends SIGTERM, the user goes on, somebody kills the run
without a warning, the user goes on until it is done. Losses and weights are those of an undisturbed run, bit for bit.
"""

import json
import signal
import subprocess
import time

import numpy as np

from journey import EXAMPLES, GNNC, Failed, check, equal, facts, gnnc, run

EPOCHS = 2500
MODEL = EXAMPLES / "gcn_cora.gir"


def command(name, resume=False):
    """A run that keeps a checkpoint and a log."""
    words = ["train", MODEL, "--epochs", EPOCHS, "--checkpoint", f"{name}.ckpt", "--log", f"{name}.jsonl", "--quiet"]
    return [*words, "--checkpoint-every", 50, *(["--resume", f"{name}.ckpt"] if resume else [])]


def epochs(name):
    """The line of each epoch of a log without its seconds, which differ; later lines count."""
    found = {}
    with open(f"{name}.jsonl") as lines:
        for line in lines:
            # A killed run may leave half of a line.
            if not line.endswith("\n"):
                continue
            event = json.loads(line)
            if event["event"] == "epoch":
                event.pop("seconds")
                found[event["epoch"]] = event
    return found


def heed_interrupts():
    """A shell starts what runs in the background with SIGINT ignored, which children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(name, workers, at, sent, resume):
    """Sends a signal once the log has an epoch; the exit code and what was printed."""
    words = [str(word) for word in [GNNC, *command(name, resume), "--workers", workers, "--format", "json"]]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, preexec_fn=heed_interrupts, **pipes)
    end = time.monotonic() + 60
    try:
        while max(epochs_so_far(name), default=0) < at:
            if process.poll() is not None:
                raise Failed(f"the run ended before epoch {at}:\n{''.join(process.communicate())}")
            check(time.monotonic() < end, f"no epoch {at} within a minute")
            time.sleep(0.02)
        process.send_signal(sent)
        asked = time.monotonic()
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    print(f"{name}, {sent.name} at epoch {at}: ended with {process.returncode} in {time.monotonic() - asked:.2f} s")
    return process.returncode, out


def epochs_so_far(name):
    try:
        return epochs(name)
    except FileNotFoundError:
        return {}


def summary(text):
    """What an interrupted run says: whole, and that it was interrupted."""
    said = json.loads(text)
    equal("interrupted", said["interrupted"], True)
    check(0 < said["epochs"] < EPOCHS, f"epochs of an interrupted run: {said['epochs']}")
    return said


def journey(workers):
    whole, name = f"whole-{workers}", f"parts-{workers}"
    expected = facts(*command(whole), "--workers", workers)
    equal("epochs of the undisturbed run", expected["epochs"], EPOCHS)

    code, out = interrupted(name, workers, 300, signal.SIGINT, resume=False)
    equal("exit code after Ctrl-C", code, 130)
    first = summary(out)
    check(first["epochs"] >= 300, f"stopped at {first['epochs']}, before it was asked")
    equal("last epoch in the log", max(epochs(name)), first["epochs"])

    code, out = interrupted(name, workers, first["epochs"] + 300, signal.SIGTERM, resume=True)
    equal("exit code after SIGTERM", code, 143)
    second = summary(out)
    check(second["epochs"] > first["epochs"], "the resumed run made no progress")

    code, _ = interrupted(name, workers, second["epochs"] + 300, signal.SIGKILL, resume=True)
    equal("exit code after SIGKILL", code, -signal.SIGKILL)

    found = facts(*command(name, resume=True), "--workers", workers)
    for key in ("train_loss", "train_accuracy", "val_accuracy", "test_accuracy", "best_epoch", "epochs"):
        equal(key, found[key], expected[key])
    equal("interrupted", found["interrupted"], False)
    equal("epochs in the logs", sorted(epochs(name)), list(range(1, EPOCHS + 1)))
    # The losses and scores of every epoch, with all digits.
    undisturbed = epochs(whole)
    equal("epochs that differ", [event for n, event in epochs(name).items() if event != undisturbed[n]], [])
    for ending in ("", ".best"):
        same = [open(f"{run_name}.ckpt{ending}", "rb").read() for run_name in (name, whole)]
        check(same[0] == same[1], f"the bytes of {name}.ckpt{ending} are not those of {whole}.ckpt{ending}")
    for run_name in (name, whole):
        gnnc("predict", MODEL, "--checkpoint", f"{run_name}.ckpt", "--out", f"{run_name}.npz", "--probabilities")
    one, other = (np.load(f"{run_name}.npz", allow_pickle=False)["probabilities"] for run_name in (name, whole))
    check(np.array_equal(one, other), "probabilities differ")


def main(folder):
    journey(workers=1)
    journey(workers=2)
    left = [path.name for path in folder.iterdir() if ".ckpt" in path.name and "tmp" in path.name]
    equal("temporary files that were left", left, [])


if __name__ == "__main__":
    run(main)
