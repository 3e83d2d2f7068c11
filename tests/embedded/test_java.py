"""Spark finds a Java on any machine."""

import shlex
import subprocess
from pathlib import Path

import pytest

from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.processes import EmbeddedError


def test_without_java_on_the_machine_the_packaged_one_runs_and_the_module_it_lacks_is_not_asked_for(
    tmp_path: Path,
) -> None:
    found = java_home(tmp_path, {"PATH": str(tmp_path)})
    assert found.is_relative_to(tmp_path)
    done = subprocess.run(
        [found / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "openjdk version" in done.stderr


def test_java_home_is_taken_at_its_word(tmp_path: Path) -> None:
    given = _java(tmp_path / "given", "21")
    assert java_home(tmp_path, {"JAVA_HOME": str(given), "PATH": ""}) == given


def test_a_java_home_without_a_recent_java_is_an_error_that_names_it(tmp_path: Path) -> None:
    given = _java(tmp_path / "old", "1.8")
    with pytest.raises(EmbeddedError, match=rf"JAVA_HOME={given} holds Java 8, and Spark needs 17 or newer"):
        java_home(tmp_path, {"JAVA_HOME": str(given), "PATH": ""})
    with pytest.raises(EmbeddedError, match="no Java that runs"):
        java_home(tmp_path, {"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_a_recent_java_of_the_system_goes_before_the_packaged_one(tmp_path: Path) -> None:
    system = _java(tmp_path / "system", "17")
    assert java_home(tmp_path, {"PATH": str(system / "bin")}) == system


def test_an_old_java_of_the_system_is_passed_over(tmp_path: Path) -> None:
    system = _java(tmp_path / "system", "11")
    assert java_home(tmp_path, {"PATH": str(system / "bin")}) == tmp_path / "java"


def _java(place: Path, version: str) -> Path:
    """Make a program that answers as the Java of that version does."""
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    lines = f"    java.home = {place}\n    java.specification.version = {version}\n"
    program.write_text(f"#!/bin/sh\necho {shlex.quote(lines)} >&2\n")
    program.chmod(0o755)
    return place
