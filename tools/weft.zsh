#compdef weft
# zsh completion for weft. Everything comes from weft's own help, so it knows what weft knows.

_weft() {
    local weft=$words[1] verb=$words[2]
    local -a list
    if (( CURRENT == 2 )); then
        list=(${(f)"$($weft | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1:\2/p')"})
        _describe verb list
        return
    fi
    if [[ $verb == data ]]; then
        if (( CURRENT == 3 )); then
            list=(${(f)"$($weft data --help | sed -n 's/^  \([a-z]*\)  *\([a-z].*\)/\1:\2/p')"})
            _describe command list
            return
        fi
        verb="data $words[3]"
    fi
    case $words[CURRENT-1] in
    --arch)
        list=($($weft info --arch | sed -n '1d; /^$/,$!s/^\([a-z0-9]\{1,\}\) .*/\1/p; s/^Presets: //p' |
                tr -d ,))
        _describe mixer list
        return ;;
    --size) compadd pico nano mini small base; return ;;
    --tokenizer) compadd unigram bpe bytes; return ;;
    --match) compadd params flops none; return ;;
    esac
    if [[ $words[CURRENT] == -* ]]; then
        list=(${(f)"$($weft ${=verb} --help |
            sed -n '/^Flags/,/^$/s/^[^-]*\(-., \)*\(--[a-z-]*\)[^ ]*\( [^ ]\{1,\}\)\{0,1\}  *\(.*\)/\2:\4/p')"}
              '--help:what there is')
        _describe flag list
        return
    fi
    _files
}

_weft "$@"
