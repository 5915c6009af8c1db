# For scripts that show what the program does: each check is counted, what fails is told. `tete` is
# the program, and the working directory becomes one of the script's own, $work.
# $book is tinyshakespeare, or names no file: TINYSHAKESPEARE, or the folder of data beside the checkout.
book=$(realpath -q "${TINYSHAKESPEARE:-../shared/data/tinyshakespeare.txt}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0
verdict() {  # verdict STATUS WHAT
  if [ "$1" = 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $2"
    sed 's/^/    out: /' out 2> /dev/null | head -n 5
    sed 's/^/    err: /' err 2> /dev/null | tail -n 5
  fi
}
check() {  # check WHAT COMMAND…
  local what=$1
  shift
  "$@" > out 2> err < /dev/null
  verdict $? "$what"
}
prints() {  # prints TEXT ARGUMENT…: tete prints exactly this
  local text=$1
  shift
  "$tete" "$@" > out 2> err < /dev/null && [ "$(cat out)" = "$text" ]
  verdict $? "tete $* prints $text"
}

# refuses CODE WORDS ARGUMENT…: tete ends with CODE; what it says last is one message from it, which
# has the WORDS (an extended regular expression); nothing was written to runs/.
refuses() {
  local code=$1 words=$2 status
  shift 2
  rm -rf runs
  "$tete" "$@" > out 2> err < /dev/null
  status=$?
  [ "$status" = "$code" ] && [ "$(grep -c '^tete' err)" = 1 ] && grep -qE -- "$words" err &&
    ! grep -qE 'terminate called|Sanitizer|core dumped|a defect of the program' err && [ ! -e runs ]
  verdict $? "tete $*: expected exit status $code (it was $status) and: $words"
}
