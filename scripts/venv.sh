#!/bin/sh
# Make the virtual environment when it is missing or broken and install mtlrun into it, in editable mode.
#   scripts/venv.sh ENVIRONMENT [EXTRAS]        PYTHON chooses the interpreter.
set -eu
venv=$1
extras=${2:-}

usable() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        usable "$PYTHON" && echo "$PYTHON" && return
        echo "PYTHON=$PYTHON is not a Python 3.11 or later." >&2
        return 1
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python; do
        usable "$candidate" && echo "$candidate" && return
    done
    echo "No Python 3.11 or later was found. Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
    return 1
}

make_venv() {
    python=$(find_python)
    # Only what we made ourselves or what is plainly an environment may be replaced.
    if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ]; then
        echo "$venv exists but is no virtual environment; move it away and try again." >&2
        return 1
    fi
    rm -rf "$venv"
    echo "Making $venv with $("$python" --version) ..."
    log=$("$python" -m venv "$venv" 2>&1) && return
    rm -rf "$venv"
    # Debian and Ubuntu split venv and ensurepip from python3.
    "$python" -m virtualenv --quiet "$venv" 2>/dev/null && return
    rm -rf "$venv"
    echo "$log" >&2
    echo "The module venv of $python does not work. On Debian or Ubuntu: apt install python3-venv." >&2
    echo "Elsewhere: $python -m pip install virtualenv, or choose another Python with make PYTHON=..." >&2
    return 1
}

"$venv/bin/python" -m pip --version >/dev/null 2>&1 && usable "$venv/bin/python" || make_venv
echo "Installing mtlrun${extras:+[$extras]} into $venv ..."
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --editable ".${extras:+[$extras]}"
# pip would compile on one core. Some files of packages are for other versions of Python.
"$venv/bin/python" -m compileall -q -j 0 "$venv"/lib/python3.*/site-packages >/dev/null 2>&1 || true
