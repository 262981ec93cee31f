/* Named settings, compiled in from train/configs/: the sizes and the architectures. */
#ifndef WEFT_PRESETS_H
#define WEFT_PRESETS_H

#include "model/config.h"

/* The text of train/configs/NAME.cfg, or NULL. Also resolves `include` in files. */
const char *preset_find(const char *name);

/* The i-th architecture of them that is more than a mixer's name (swax); NULL after the
 * last. */
const char *preset_arch(int i);

/* Where a run's settings come from. Later ones win: defaults, size, arch, file, set. */
struct sources {
    const struct config *from;  // another run's, in place of defaults and size;
                                // NULL: none
    const char  *size;          // pico, nano, mini, small, base; NULL: nano
    const char  *arch;          // a preset's name, else taken as `mixers`; NULL: softmax
    const char  *file;          // NULL: none
    const char **set;           // n_set pairs: key, value, key, value
    int          n_set;
};

/* Settings from all sources, not resolved. FAIL_USAGE, FAIL_INPUT. */
enum fail presets_apply(struct config *c, const struct sources *s, struct why *why);

#endif
