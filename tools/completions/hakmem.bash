# Completion of hakmem for bash. What there is to complete it asks the tool, so that it cannot be out of
# date: commands and options from --help, names and values from `hakmem options`.

# The options of a command, one a line, as --help has them: -p, --profile=PROFILE.
_hakmem_options() {
  "$@" --help 2>/dev/null | sed -n 's/^ \{2,6\}\(\(-.,\)\{0,1\} *--[^ ]*\).*/\1/p'
}

_hakmem_commands() {
  "$1" help 2>/dev/null | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# The values of an option of a command of the tool.
_hakmem_values() {
  case $2 in
  -p | --profile) "$1" options HAKMEM_PROFILE 2>/dev/null | sed -n '1s/.*=//p' | tr '|' '\n' ;;
  --stats) "$1" options HAKMEM_STATS 2>/dev/null | sed -n '1s/.*=//p' | tr '|' '\n' ;;
  --format) "$1" "$3" --format= 2>&1 | sed -n 's/.*accepted: //p' | tr '|' '\n' ;;
  --by) "$1" "$3" --by= 2>&1 | sed -n 's/.*accepted: //p' | tr '|' '\n' ;;
  --name) cat /proc/[0-9]*/comm 2>/dev/null | grep -v '[^a-zA-Z0-9._+-]' | sort -u ;;
  --variant) printf '%s\n' standard fast observe hardened check ;;
  *) return 1 ;;
  esac
}

# Numbers and names of processes.
_hakmem_processes() {
  (cd /proc && printf '%s\n' [0-9]*)
  cat /proc/[0-9]*/comm 2>/dev/null | grep -v '[^a-zA-Z0-9._+-]' | sort -u
}

_hakmem() {
  local tool=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} first=2 option='' i word
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_hakmem_commands "$tool") --help --version" -- "$current")
    return
  fi
  local command=("$tool" "${COMP_WORDS[1]}")
  case ${COMP_WORDS[1]} in
  help)
    mapfile -t COMPREPLY < <(compgen -W "$(_hakmem_commands "$tool")" -- "$current")
    return
    ;;
  trace)
    if [ "$COMP_CWORD" = 2 ]; then
      word=$("$tool" trace --help 2>/dev/null | sed -n 's/^Usage: hakmem trace \([a-z]*\).*/\1/p')
      mapfile -t COMPREPLY < <(compgen -W "$word --help" -- "$current")
      return
    fi
    command+=("${COMP_WORDS[2]}")
    first=3
    ;;
  esac
  local known
  known=$(_hakmem_options "${command[@]}")
  # What stands before the cursor: options, the value of one, or the program and its arguments. Bash
  # makes three words of --profile=lean.
  for ((i = first; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [ "$word" = = ]; then
      option=${COMP_WORDS[i - 1]}
    elif [ -n "$option" ]; then
      option=''
    elif [ "$word" = -- ]; then
      ((i++))
      break
    elif [[ $word = -* ]]; then
      # The next word is its value, if it needs one: "-p, --profile=PROFILE", not "--stats[=FORMAT]".
      grep -Eq -- "(^| )$word(,.*)?=" <<<"$known" && option=$word
    else
      break
    fi
  done
  if [ "$i" -lt "$COMP_CWORD" ] || { [ "$i" = "$COMP_CWORD" ] && [ "${COMP_WORDS[i - 1]}" = -- ]; }; then
    case ${command[1]} in
    run | doctor | trace) ;;
    prof)
      if [ "${COMP_WORDS[i]}" = diff ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
      fi
      [ "${COMP_WORDS[i - 1]}" = -- ] || return
      ;;
    *) return ;;
    esac
    if declare -F _command_offset >/dev/null; then
      _command_offset "$i"
    elif [ "$i" = "$COMP_CWORD" ]; then
      mapfile -t COMPREPLY < <(compgen -c -- "$current")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
    return
  fi
  if [ "$current" = = ]; then
    option=${COMP_WORDS[COMP_CWORD - 1]}
    current=''
  fi
  if [ -n "$option" ]; then
    if word=$(_hakmem_values "$tool" "$option" "${command[1]}"); then
      mapfile -t COMPREPLY < <(compgen -W "$word" -- "$current")
    else
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
    return
  fi
  if [[ $current = -* ]]; then
    word=$(sed 's/^-., //; s/^ *//; s/\[=.*//; s/=.*/=/' <<<"$known")
    mapfile -t COMPREPLY < <(compgen -W "$word" -- "$current")
    [[ ${#COMPREPLY[@]} = 1 && ${COMPREPLY[0]} = *= ]] && compopt -o nospace 2>/dev/null
    return
  fi
  case ${command[1]} in
  stats | explain | prof | where | core)
    if [ "${command[1]}" = core ] || [[ $current = */* ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [ "${command[1]}" = prof ]; then
      mapfile -t COMPREPLY < <(compgen -W "diff $(_hakmem_processes)" -- "$current")
    else
      mapfile -t COMPREPLY < <(compgen -W "$(_hakmem_processes)" -- "$current")
    fi
    ;;
  top) mapfile -t COMPREPLY < <(compgen -W "$(_hakmem_processes)" -- "$current") ;;
  serve) mapfile -t COMPREPLY < <(cd /proc && compgen -W "$(printf '%s ' [0-9]*)" -- "$current") ;;
  blackbox)
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -d -- "$current")
    ;;
  names)
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    ;;
  options) mapfile -t COMPREPLY < <(compgen -W "$("$tool" options --format=names 2>/dev/null)" -- "$current") ;;
  run | doctor | trace)
    if declare -F _command_offset >/dev/null; then _command_offset "$COMP_CWORD"
    else mapfile -t COMPREPLY < <(compgen -c -- "$current"); fi
    ;;
  esac
}

complete -F _hakmem hakmem
