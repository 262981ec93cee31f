/* The size a run gets when nobody names one. */
#ifndef WEFT_SIZE_H
#define WEFT_SIZE_H

/* Bytes of text in the inputs, about: files, directories, or one dataset. 0: unknown. */
double choose_text(const char *const *inputs, int n);

/* The largest size that so much text feeds and so much time trains. */
const char *choose_size(double bytes, double seconds);

#endif
