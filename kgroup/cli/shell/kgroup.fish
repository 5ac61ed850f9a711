# Completion of kgroup for fish 3.1 or later, made by: kgroup completion fish

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
