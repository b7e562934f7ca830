# Sourced by the other scripts: make_venv DIR creates or repairs an environment; use_venv DIR SPEC also installs Elman
# into it.
# Works with bash 3.2, which is what macOS ships.

# pip does not compile what it installs (most of it is never imported: half a minute less), so Python must be allowed to
# keep what it compiles at the first import, or every process would compile it again.
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
    [ -e "$dir" ] && echo "$dir is incomplete: creating it again" && rm -rf "$dir"
    echo "Creating $dir with $("$python" --version)"
    "$python" -m venv "$dir" || {
      rm -rf "$dir"
      stop "Python could not create a virtual environment. On Debian and Ubuntu: apt-get install python3-venv. Then run this again."
    }
  fi
}

use_venv() {
  local dir=$1 spec=$2 stamp wanted
  make_venv "$dir"
  # install again only if the requirements have changed: the stamp is the checksum of pyproject.toml and the spec
  stamp="$dir/elman-installed"
  wanted="$spec $(cksum <pyproject.toml)"
  if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing Elman into $dir (a minute or two, the first time)"
    "$dir/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check --editable "$spec" || stop "The installation failed (see pip's message above).
It needs the package index: check the network or the proxy, then run this again. What is installed already is kept."
    echo "$wanted" >"$stamp"
  fi
}
