# bash completion for weft. Everything comes from weft's own help, so it knows what weft
# knows.

_weft_words() {
    local weft=$1 verb=$2
    case $verb in
    '') "$weft" | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p'; echo help ;;
    data) "$weft" data --help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' ;;
    *)  "$weft" $verb --help | sed \
        -n '/^Flags/,/^$/s/^[^-]*\(-., \)*\(--[a-z-]*\).*/\2/p'; echo --help ;;
    esac
}

_weft_settings() { "$1" train --help settings | sed -n 's/^\([a-z0-9_]*\) = .*/\1=/p'; }

_weft_mixers() { "$1" info --arch | sed -n '1d; /^$/,$!s/^\([a-z0-9]\{1,\}\) .*/\1/p
    s/^Presets: //p' | tr -d ,; }

_weft() {
    local weft=${COMP_WORDS[0]} cur prev verb words=
    _get_comp_words_by_ref -n = cur prev 2> /dev/null ||
        { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
    [ $COMP_CWORD -gt 1 ] && verb=${COMP_WORDS[1]}
    [ "$verb" = data ] && [ $COMP_CWORD -gt 2 ] && verb="data ${COMP_WORDS[2]}"
    case $prev in
    --arch) words=$(_weft_mixers "$weft") ;;
    --from|--resume|--replay) ;;
    --size) words='pico nano mini small base' ;;
    --x) words='steps tokens flops seconds' ;;
    --y) words='val loss lr norm window speed' ;;
    --to) words='hf gguf llama2c' ;;
    --type) words='f32 f16 bf16 q8_0' ;;
    --match) words='params flops none' ;;
    --weights) words='f32 bf16 q8_0' ;;
    --tokenizer) words='unigram bpe bytes' ;;
    help) words=$(_weft_words "$weft" '') ;;
    *)  case $verb:$cur in
        :*|data:*|*:-*) words=$(_weft_words "$weft" "$verb") ;;
        train:*|compare:*) words=$(_weft_settings "$weft") ;;
        bench:*) words='tiny small base long' ;;
        lab:*) words="$("$weft" lab | sed -n 's/^\([a-z]\{1,\}\)  .*/\1/p') all" ;;
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    [[ -z $words || $words == *layers=* ]] &&
        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur")
    return 0
}

complete -o filenames -F _weft weft
