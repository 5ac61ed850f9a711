"""The scripts that let a shell ask kgroup how a command line may go on.

They hold no word of kgroup's own: each time they run ``kgroup completion SHELL -- …`` with what was
typed so far. It prints a line that says of what kind the suggestions are, then one a line:

    file, dir   paths, which the shell knows best; no more lines follow
    plain       whole words
    part        words that may go on, so that no space belongs behind them

bash gets what is to be typed, quoted; zsh and fish quote by themselves and get the words as they
are, with a tab and an explanation behind them where there is one.
"""

from collections.abc import Mapping

__all__ = ["SCRIPTS", "SHELLS"]

_BASH = r"""# Completion of kgroup for bash 4.4 or later, made by: kgroup completion bash

_kgroup() {
    local kind=
    COMPREPLY=()
    { IFS= read -r kind && mapfile -t COMPREPLY; } < <(
        "${1/#\~/$HOME}" completion bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" \
            2>/dev/null
    )
    case $kind in
        file) compopt -o default ;;
        dir) compopt -o dirnames ;;
        part) compopt -o nospace ;;
    esac
}

complete -F _kgroup kgroup
"""

_ZSH = r"""#compdef kgroup
# Completion of kgroup for zsh 5.1 or later, made by: kgroup completion zsh

_kgroup() {
    local kind line current=$PREFIX program=${(Q)words[1]}
    local -a lines values shown options
    [[ -z $compstate[quote] ]] && current=${(Q)PREFIX}
    lines=("${(@f)$(${~program} completion zsh -- "${(@Q)words[2,CURRENT-1]}" "$current" \
        2>/dev/null)}")
    kind=$lines[1]
    case $kind in
        file | dir)
            [[ $PREFIX == -*=* ]] && compset -P '*='
            if [[ $kind == dir ]]; then _files -/; else _files; fi
            ;;
        plain | part)
            for line in "${(@)lines[2,-1]}"; do
                values+=("${line%%$'\t'*}")
                shown+=("${line/$'\t'/  -- }")
            done
            [[ $kind == part ]] && options+=(-S '')
            [[ $lines[2] == *$'\t'* ]] && options+=(-l)
            compadd "${options[@]}" -M 'm:{a-zA-Z}={A-Za-z}' -d shown -a values
            ;;
    esac
}

if [[ $funcstack[1] == _kgroup ]]; then
    _kgroup "$@"
else
    compdef _kgroup kgroup
fi
"""

_FISH = r"""# Completion of kgroup for fish 3.1 or later, made by: kgroup completion fish

function __kgroup_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l lines ($program completion fish -- $words "$current" 2>/dev/null)
    set -l kind $lines[1]
    set -e lines[1]
    switch "$kind"
        case file dir
            set -l option (string match -r -- '^-[^=]*=' "$current")
            set -l path (string replace -r -- '^-[^=]*=' '' "$current")
            if test "$kind" = dir
                printf '%s\n' "$option"(__fish_complete_directories "$path")
            else
                printf '%s\n' "$option"(__fish_complete_path "$path")
            end
        case plain part
            printf '%s\n' $lines
    end
end

complete --command kgroup --no-files --arguments '(__kgroup_complete)'
"""

SCRIPTS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""By the name of the shell."""
SHELLS = tuple(SCRIPTS)
