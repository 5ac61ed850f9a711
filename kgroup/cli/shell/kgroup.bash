# Completion of kgroup for bash 4.4 or later, made by: kgroup completion bash

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
