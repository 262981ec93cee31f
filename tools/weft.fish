# fish completion for weft. Everything comes from weft's own help, so it knows what weft knows.

function __weft_verb
    set -l words (commandline -opc)
    set -e words[1]
    test "$words[1]" = data; and test (count $words) -gt 1; and echo data $words[2]; and return
    echo $words[1]
end

function __weft_verbs
    weft | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
end

function __weft_subs
    weft data --help | sed -n 's/^  \([a-z]*\)  *\([a-z].*\)/\1\t\2/p'
end

function __weft_flags
    weft (string split ' ' (__weft_verb)) --help |
        sed -n '/^Flags/,/^$/s/^[^-]*\(-., \)*\(--[a-z-]*\)[^ ]*\( [^ ]\{1,\}\)\{0,1\}  *\(.*\)/\2\t\4/p'
end

function __weft_mixers
    weft info --arch | sed -n '1d; /^$/,$!s/^\([a-z0-9]\{1,\}\) .*/\1/p; s/^Presets: //p' |
        string split , | string trim
end

complete -c weft -n '__fish_is_nth_token 1' -f -a '(__weft_verbs)'
complete -c weft -n '__fish_is_nth_token 2; and test (__weft_verb) = data' -f -a '(__weft_subs)'
complete -c weft -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__weft_flags)'
complete -c weft -n 'test (commandline -opc)[-1] = --arch' -f -a '(__weft_mixers)'
complete -c weft -n 'test (commandline -opc)[-1] = --size' -f -a 'pico nano mini small base'
complete -c weft -n 'test (commandline -opc)[-1] = --tokenizer' -f -a 'unigram bpe bytes'
