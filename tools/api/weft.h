/* weft as a library: open a model, tokenize, feed and step sequences, sample, generate,
 * score, train. C99 and C++. Link with: cc main.c $(pkg-config --cflags --libs weft)
 *
 *     weft_model *m = weft_model_open("runs/book");
 *     weft_generate(m, "Once", 4, "{\"max_tokens\": 50}", print, NULL);
 *     weft_model_close(m);
 *
 * Functions that return int return 0, or what weft would exit with: 2 usage, 3 input, 4
 * diverged, 5 writing, 6 memory, 130 stopped; those that return a pointer, NULL; those
 * that return a length, -1. weft_error() then has one line for a person.
 *
 * The library catches no signal, prints nothing and never exits. Buffers are the
 * caller's. A model may be used by several threads at once, a session or a sampler by one
 * at a time. Text is bytes, UTF-8 or not; lengths are in bytes.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_model   weft_model;
typedef struct weft_session weft_session;
typedef struct weft_sampler weft_sampler;

/* "weft 0.2.0 ...": version, commit, compiler and flags. */
const char *weft_version(void);

/* Why the last function of this thread failed; "" when none has. */
const char *weft_error(void);

/* Threads that compute, whichever thread calls; the results do not depend on it. */
void weft_set_threads(int n);

/* ---- models ---- */

/* A run, a checkpoint, RUN@best or RUN@STEP. */
weft_model *weft_model_open(const char *path);
void        weft_model_close(weft_model *m);            /* NULL is fine */

/* {"checkpoint", "mixers", "layers", "width", "parameters", "vocab", "context", "eos",
 * "tokenizer", "state_bytes"} with a NUL at its end into json (cap bytes, cut to fit).
 * Returns its length. */
long weft_model_info(const weft_model *m, char *json, size_t cap);

/* Returns how many ids the text has, of which at most cap are written. */
long weft_tokenize(const weft_model *m, const char *text, size_t len, int32_t *ids,
                   size_t cap);

/* Returns how many bytes the ids stand for, of which at most cap are written. */
long weft_detokenize(const weft_model *m, const int32_t *ids, size_t n, char *text,
                     size_t cap);

/* ---- sessions ---- */

/* So many sequences, each in its slot, empty. The model must outlive it. A text begins
 * after eos: feed that first. */
weft_session *weft_session_open(const weft_model *m, int slots);
void          weft_session_close(weft_session *s);      /* NULL is fine */

/* n more tokens for one sequence; logits (vocab) of the last, NULL: not wanted. */
int weft_feed(weft_session *s, int slot, const int32_t *ids, size_t n, float *logits);

/* One more token for each of k different slots; logits (k, vocab). Up to 16 at once, a
 * sequence's logits have the bits that it has alone. */
int weft_step(weft_session *s, const int *slots, const int32_t *ids, int k,
              float *logits);

int  weft_clear(weft_session *s, int slot);             /* empty again */
int  weft_copy(weft_session *s, int to, int from);
long weft_position(const weft_session *s, int slot);    /* tokens it has seen */

/* A sequence as bytes, for the same model. */
size_t weft_state_size(const weft_session *s);
int    weft_state_get(const weft_session *s, int slot, void *state, size_t size);
int    weft_state_set(weft_session *s, int slot, const void *state, size_t size);

/* ---- sampling ---- */

/* options: {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05,
 * "repeat_penalty": 1, "repeat_last_n": 64, "presence_penalty": 0,
 * "frequency_penalty": 0, "logit_bias": {"ID": X}, "seed": N}; NULL: these. */
weft_sampler *weft_sampler_open(const weft_model *m, const char *options);
void          weft_sampler_close(weft_sampler *s);      /* NULL is fine */
int32_t       weft_pick(weft_sampler *s, const float *logits);  /* and accept it */
void          weft_accept(weft_sampler *s, int32_t id); /* recent, as a prompt's are */

/* ---- all at once ---- */

/* Write on after a prompt; without one (len 0) a model of one book begins with a word
 * that it learned, which is told too, as weft infer does. options as a sampler's, and
 * "max_tokens" (256), "stop": a string or up to 16. on_bytes gets the text as it comes,
 * whole characters, and ends it by returning other than 0. */
int weft_generate(const weft_model *m, const char *prompt, size_t len,
                  const char *options,
                  int (*on_bytes)(void *user, const char *bytes, size_t len),
                  void *user);

/* Nats of every token of a text, each given those before it in its window of `context`,
 * as weft score has them: a model with a prefix, as some imported ones, reads that before
 * the text, and its tokens count. Returns how many there are, at most len + 32, of which
 * at most cap are written. */
long weft_score(const weft_model *m, const char *text, size_t len, float *nats,
                size_t cap);

/* A step of training; NAN where there is nothing to tell. */
typedef struct weft_step_info {
    long   step, steps;         /* steps: of the run, 0: a clock decides */
    double tokens, loss, lr, val_loss, val_bpb, tokens_per_second;
} weft_step_info;

/* Train a new run: {"input": PATH or [PATH, ...], "out": RUN, "size": "nano", "arch":
 * "softmax", ...}, these where they are not named, and any setting of weft train
 * ("steps": 200, ...); "for": seconds or "tokens": N in place of steps. on_step
 * (or NULL) ends it by returning other than 0: the run is saved, and 130 returned. Text
 * is tokenized by a child process, so that must come before this process has computed
 * anything; a dataset (weft data build) may come at any time. One at a time. */
int weft_train(const char *options,
               int (*on_step)(void *user, const weft_step_info *step), void *user);

#ifdef __cplusplus
}
#endif
#endif
