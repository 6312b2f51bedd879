_garth() {
    local IFS=$'\n'
    COMPREPLY=($(garth __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${COMPREPLY[0]} == */ ]]; then compopt -o nospace; fi
}
complete -o default -o filenames -F _garth garth
