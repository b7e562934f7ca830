# Sourced by the scripts beside it: make_venv DIR makes an environment, or repairs it; use_venv DIR SPEC makes one and
# installs Elman into it.
# Works with bash 3.2, which is what macOS ships.

# What is installed is compiled when it is first imported, and most of it never is: half a minute less. That is to be
# kept, though, or every process would compile it anew.
unset PYTHONDONTWRITEBYTECODE

stop() {
  printf '\n%s\n' "$*" >&2
  exit 1
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.14 python3.13 python3.12 python3.11 python3 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

make_venv() {
  local dir=$1 python
  if ! "$dir/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python) || stop "Elman needs Python 3.11 or newer, and none was found.
Install it (https://www.python.org/downloads, or: apt-get install python3 python3-venv), or name one: PYTHON=/path/to/python3.12 bash $0"
    [ -e "$dir" ] && echo "$dir is incomplete: making it anew" && rm -rf "$dir"
    echo "Making $dir with $("$python" --version)"
    "$python" -m venv "$dir" || {
      rm -rf "$dir"
      stop "Python could not make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv. Then run this again."
    }
  fi
}

use_venv() {
  local dir=$1 spec=$2 stamp wanted
  make_venv "$dir"
  # install again only when what is installed could differ: the stamp is the project file and the spec
  stamp="$dir/elman-installed"
  wanted="$spec $(cksum <pyproject.toml)"
  if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing Elman into $dir (a minute or two, the first time)"
    "$dir/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check --editable "$spec" || stop "The installation failed (pip's own words are above).
It needs the package index once: check the network or the proxy, then run this again. What is already there is kept."
    echo "$wanted" >"$stamp"
  fi
}
