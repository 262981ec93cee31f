/* Parts of a mixer left out, in language modelling: every arm is trained on the same
 * stories, and a claim says of two arms which needs fewer bits per byte of text held out.
 *
 *     struct ablation a = {.name = "inline-text", .title = "...", .arm = arms, .arms = 5,
 *                          .column = 1, .claims = trained, .pairs = pairs, .n = 3};
 *     err = ablation_run(&a, l, why);
 *
 * Not in the quick form.
 */
#ifndef WEFT_LAB_ABLATION_H
#define WEFT_LAB_ABLATION_H

#include "tools/lab/lab.h"

/* What is measured of an arm, counted from the experiment's column of bits. */
enum ablation_value {
    ABLATION_BITS,                      // per byte of text held out
    ABLATION_ZEROS,                     // with .attends: the share of an attention's
                                        // weights that are exactly 0,
    ABLATION_APART,                     // and how far its heads' weights are apart: their
                                        // Jensen-Shannon divergence, bits
    ABLATION_NEAR = ABLATION_ZEROS,     // with .hides: bits per byte of `softmax` when a
    ABLATION_FAR,                       // query does not see the ABLATION_HIDDEN tokens
                                        // before it, or as many others at random
};
enum { ABLATION_HIDDEN = 8 };

/* What has more, and what has fewer. */
struct ablation_pair {
    struct ablation_side {
        int                 arm;
        enum ablation_value value;
    } more, fewer;
};

struct ablation {
    const char *name, *title;           // of its chart
    const char *const *arm;             // mixers
    int         arms;
    const int  *starts;                 // (optional) of each, at most so many seeds
    int         column;                 // of the experiment's: bits per byte
    bool        attends, hides;         // two columns more
    const struct lab_claim *claims;     // (n) ANSWER_MORE or EQUAL, of these,
    const struct ablation_pair *pairs;  // (n) or ANSWER_ABOVE, of `fewer`
    int         n;
};

/* Of experiments: at. */
#define ABLATION_AT "2 layers of width 64, 1500 steps of 16 x 48 bytes of stories"

#define ABLATION_GATE "the better arm below 3 bits per byte"

/* Run its cells and judge its claims. Those of the cells. */
enum fail ablation_run(const struct ablation *a, struct lab *l, struct why *why);

#endif
