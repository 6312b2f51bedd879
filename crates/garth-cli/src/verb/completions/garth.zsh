#compdef garth
_garth() {
    local -a found
    found=("${(@f)$(garth __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -z ${found[1]} ]]; then
        _files
    elif [[ ${found[1]} == */ ]]; then
        compadd -S '' -a found
    else
        compadd -a found
    fi
}
if [[ ${funcstack[1]} == _garth ]]; then _garth "$@"; else compdef _garth garth; fi
