/* weft compiled for one set of instructions. A program usually holds one; that of
 * MODE=portable holds all of weft once for each level of x86-64, and start.c chooses.
 * Results have the same bits on every CPU that runs the same level. */
#ifndef WEFT_LEVEL_H
#define WEFT_LEVEL_H

struct level {
    const char        *name;                    // "v3", as in --version
    const char *const *needs;                   // instructions of the CPU, up to NULL
    int              (*main)(int argc, char **argv);
};

extern const char *const level_needs[];         // of what is compiled with it: level.c

#endif
