function __garth_complete
    set -l found (garth __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c garth -f -a '(__garth_complete)'
