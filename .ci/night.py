#!/usr/bin/env python3
"""What .ci/night saw, as a section of docs/verification.md."""

import datetime
import json
import os
import re
import sys

DOCUMENT = "docs/verification.md"
HEADING = "## The long campaign\n"

# What is said of a campaign, by the name in its report.
FIGURES = {
    "schedules": "schedules",
    "histories_checked": "histories",
    "undecided": "undecided",
    "sites_crossed": "steps met",
    "operations": "operations",
    "deaths": "hosts killed",
    "stops": "hosts stopped",
    "killed": "processes killed",
    "recoveries": "recoveries",
    "acknowledged": "transactions acknowledged as durable",
}


def row(command, code, path):
    """A row of the table: the command, its exit code, and figures of its report."""
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except ValueError:
        report = {}
    said = [f"exit code {code}"]
    for name, what in FIGURES.items():
        number = report.get(name)
        if isinstance(number, int) and not isinstance(number, bool):
            said.append(f"{number:,} {what}")
    if isinstance(report.get("failures"), list):
        said.append(f"{len(report['failures'])} failures")
    if deaths := report.get("deaths"):
        if isinstance(deaths, dict):
            said.append(f"{deaths['died']:,} deaths of {deaths['aimed']:,} aims")
    if mutants := report.get("mutants"):
        said.append(f"{mutants['killed']} of {mutants['total']} mutants killed")
    return f"| `tombolo {command}` | {', '.join(said)} |"


def section(rows, commit, minutes):
    """Puts the rows in the place of the section that is there."""
    today = datetime.date.today().isoformat()
    text = (
        f"{HEADING}\n`.ci/night` runs what CI does less of. On {today}, at commit {commit}, on "
        f"{os.cpu_count()} processors, it took {minutes} minutes:\n\n"
        f"| command | result |\n| --- | --- |\n{rows}\n"
    )
    with open(DOCUMENT, encoding="utf-8") as file:
        document = file.read()
    if HEADING in document:
        pattern = re.escape(HEADING) + r".*?(?=^## |\Z)"
        document = re.sub(pattern, lambda _: text, document, flags=re.MULTILINE | re.DOTALL)
    else:
        document = document.rstrip("\n") + "\n\n" + text
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        file.write(document)


if sys.argv[1] == "row":
    print(row(sys.argv[2], sys.argv[3], sys.argv[4]))
else:
    with open(sys.argv[2], encoding="utf-8") as file:
        section(file.read(), sys.argv[3], sys.argv[4])
