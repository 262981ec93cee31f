/* Lists as people type them: softmax(window=64,sinks=4)+rope,gla. */
#ifndef WEFT_SPLIT_H
#define WEFT_SPLIT_H

#include <stddef.h>

/* Bytes of the first entry of a list parted by `by`; inside parentheses it parts nothing.
 * list[length] is `by`, or the end. */
static inline size_t split_length(const char *list, char by)
{
    size_t n = 0;

    for (int depth = 0; list[n] && (depth > 0 || list[n] != by); n++)
        depth += (list[n] == '(') - (list[n] == ')');
    return n;
}

#endif
