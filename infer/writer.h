/* K texts written together by one model: a session, and for each text a sampler and
 * a stream.
 *
 *     feed  -> session_prompt
 *     write -> { sampler_pick -> stream_push -> session_extend } ...
 *
 * One text goes out as its tokens come. Several go out in order, each when it is
 * complete, under a line "--- sample 1 of K ---".
 */
#ifndef WEFT_WRITER_H
#define WEFT_WRITER_H

#include "infer/sampler.h"
#include "infer/session.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdio.h>

struct writer_options {
    struct sampler_options sampler;
    int                    K;
    int                    n;               // tokens of a text at most; -1: until it ends
    bool                   ignore_eos;
    const char *const     *stop;            // (n_stop) texts end before these
    int                    n_stop;
    FILE                  *out;
    bool                   terminal;        // out is one
    int                    columns;         // of it, to break lines at words; 0: not
};

struct text_out;                            // one of the texts

enum { WRITER_TURNS = 32 };                 // that can be taken back

/* Where a text stood before a turn. */
struct turn {
    struct sampler *sampler;
    void           *state;
    long            pos;
    int32_t         next;
};

/* Of a text of n tokens: the time that the first or the last tenth of them took, and the
 * memory held at its end. */
struct tenth {
    double seconds;
    size_t memory;
};

struct writer {
    struct writer_options   o;
    const struct model     *model;          // not owned
    const struct tokenizer *tokenizer;      // not owned
    struct session          session;
    struct text_out        *text;           // (K)
    int32_t                *next;           // (K) chosen and not yet fed; -1: none.
                                            // Before a prompt next[0] stands for all
    struct turn             turn[WRITER_TURNS];     // (turns) the last ones
    int                     turns;
    int                     printed;        // of K > 1 texts, how many are out
    int                     error;          // errno of the write that failed, or 0
    long                    prompt_tokens, tokens;
    double                  prompt_seconds, seconds;
    struct tenth            first, last;    // last is zero unless all n were written
};

/* model, tokenizer and stop must outlive the writer. FAIL_MEMORY. On failure nothing
 * needs closing. */
enum fail writer_open(struct writer *w, const struct model *m, const struct tokenizer *t,
                      const struct writer_options *o, struct why *why);
void writer_close(struct writer *w);                // a zeroed one is fine

/* Write bytes as the beginning of every text; they are not fed. */
void writer_echo(struct writer *w, const char *bytes, size_t len);

/* Feed a prompt. Documents begin after an EOS in training, so the first input is EOS, and
 * the model's prefix where it has one; later ones follow the last token written. Without
 * a prompt a text begins with the model's opening, which is written and follows no EOS,
 * or else with the prefix, which the model writes and is left out. FAIL_MEMORY. */
enum fail writer_feed(struct writer *w, const char *bytes, size_t len, struct why *why);

/* Write until the end of every text, n tokens, an interrupt or a failed write
 * (see error). May be repeated, after another feed, when K is 1. */
void writer_run(struct writer *w);

/* Remember where the text stands, when K is 1; the oldest of WRITER_TURNS is forgotten.
 * FAIL_MEMORY. And go back to there: false when nothing is remembered. Fed and written
 * again, the same follows. */
enum fail writer_mark(struct writer *w, struct why *why);
bool      writer_undo(struct writer *w);

/* Of the choices from now on. */
void writer_temp(struct writer *w, double temp);
void writer_seed(struct writer *w, uint64_t seed);

#endif
