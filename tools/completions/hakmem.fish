# Completion of hakmem for fish. What there is to complete it asks the tool, so that it cannot be out of
# date: commands and options from --help, names and values from `hakmem options`.

# The options of a command: "-p, --profile=PROFILE<tab>help".
function __hakmem_options
    $argv --help 2>/dev/null | string replace -rf '^ {2,6}((?:-., )? *--\S+)\s*(.*)' '$1\t$2' | string trim -l
end

# The values of an option of the tool; false when it takes the name of a file.
function __hakmem_values
    switch $argv[2]
        case -p --profile
            $argv[1] options HAKMEM_PROFILE 2>/dev/null | head -n 1 | string replace -r '.*=' '' | string split '|'
        case --stats
            $argv[1] options HAKMEM_STATS 2>/dev/null | head -n 1 | string replace -r '.*=' '' | string split '|'
        case --format
            $argv[1] $argv[3] --format= 2>&1 | string replace -rf '.*accepted: ' '' | string split '|'
        case --by
            $argv[1] $argv[3] --by= 2>&1 | string replace -rf '.*accepted: ' '' | string split '|'
        case --name
            cat /proc/*/comm 2>/dev/null | sort -u
        case --variant
            printf '%s\n' standard fast observe hardened check
        case '*'
            return 1
    end
end

function __hakmem_commands
    $argv[1] help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
end

function __hakmem_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l tool $words[1]
    if test (count $words) = 1
        __hakmem_commands $tool
        return
    end
    set -l called $tool $words[2]
    switch $words[2]
        case help
            __hakmem_commands $tool
            return
        case trace
            if test (count $words) = 2
                $tool trace --help 2>/dev/null | string replace -rf '^Usage: hakmem trace ([a-z]+).*' '$1'
                return
            end
            set called $called $words[3]
    end
    set -l known (__hakmem_options $called)
    set -l option ''
    set -l begin (math (count $called) + 1)
    set -l i $begin
    # What stands before the cursor: options, the value of one, or the program and its arguments.
    while test $i -le (count $words)
        set -l word $words[$i]
        if test -n "$option"
            set option ''
        else if test "$word" = --
            set i (math $i + 1)
            break
        else if string match -q -- '-*' $word
            # The next word is its value, if it needs one: "--profile=PROFILE", not "--stats[=FORMAT]".
            string match -rq -- "^(-., )?$word(,.*)?=" $known; and set option $word
        else
            break
        end
        set i (math $i + 1)
    end
    set -l ended false
    test $i -gt $begin; and test "$words[$(math $i - 1)]" = --; and set ended true
    if test -n "$option"
        __hakmem_values $tool $option $words[2]; or __fish_complete_path $current
    else if test $i -gt (count $words); and test $ended = false; and string match -q -- '--*=*' $current
        set -l name (string split -m 1 = -- $current)[1]
        set -l values (__hakmem_values $tool $name $words[2])
        and printf "$name=%s\n" $values
        or for path in (__fish_complete_path (string split -m 1 = -- $current)[2])
            echo "$name=$path"
        end
    else if test $i -gt (count $words); and test $ended = false; and string match -q -- '-*' $current
        string replace -r '^-., *' '' -- $known | string replace -r '\[?=[^\t]*' '' | string trim -l
    else if contains -- $words[2] run doctor trace
        set -l rest
        test $i -le (count $words); and set rest (string escape -- $words[$i..-1])
        complete -C (string join ' ' -- $rest $current)
    else if test "$words[2]" = prof; and test $i -le (count $words); and test "$words[$i]" = diff
        __fish_complete_path $current
    else if test "$words[2]" = prof; and test $ended = true
        set -l rest
        test $i -le (count $words); and set rest (string escape -- $words[$i..-1])
        complete -C (string join ' ' -- $rest $current)
    else if test "$words[2]" = core; or begin; contains -- $words[2] stats explain prof where; and string match -q '*/*' -- $current; end
        __fish_complete_path $current
    else if test "$words[2]" = prof
        echo diff
        cat /proc/*/comm 2>/dev/null | sort -u
        __fish_complete_pids
    else if contains -- $words[2] stats top explain where
        cat /proc/*/comm 2>/dev/null | sort -u
        __fish_complete_pids
    else if test "$words[2]" = serve
        __fish_complete_pids
    else if test $words[2] = blackbox
        __fish_complete_directories $current
    else if test $words[2] = names
        __fish_complete_path $current
    else if test $words[2] = options
        $tool options --format=names 2>/dev/null
    end
end

complete -c hakmem -f -a '(__hakmem_complete)'
