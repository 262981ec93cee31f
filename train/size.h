/* The size, the architecture and the threads a run gets when nobody names them. */
#ifndef WEFT_SIZE_H
#define WEFT_SIZE_H

/* Bytes of text in the inputs, about: files, directories, or one dataset. 0: unknown. */
double choose_text(const char *const *inputs, int n);

/* The largest size that so much text feeds and so much time of so many cores trains. */
const char *choose_size(double bytes, double seconds, int cores);

/* The architecture that a size begins with in such a time, a preset's name. NULL:
 * attention. */
const char *choose_arch(const char *size, double seconds, int cores);

/* So many as OpenMP has where `asked` is 0, or more than the cores of this machine: a
 * file of settings may come from a larger one. */
int choose_threads(int asked);

#endif
