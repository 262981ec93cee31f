/* A verb run in a child process, and what it printed. Verbs exit, and OpenMP does not
 * survive a fork, so that a suite which uses this computes nothing itself. */
#ifndef WEFT_SPAWN_H
#define WEFT_SPAWN_H

struct ran {
    int  code;                          // exit code, or -signal
    char out[1 << 16], err[1 << 13];
};

/* What '@' stands for in a line: the run directory of the suite. */
extern const char *spawn_run_dir;

/* Run verb over the words of line, parted by spaces ('~' in a word is a space), with this
 * stdin. The result is valid until the next call. */
const struct ran *spawn_verb(int (*verb)(int argc, char **argv), const char *line,
                            const char *input);

/* A verb for spawn_verb: DIR MIXERS [KEY=VALUE...] writes a checkpoint of a small model
 * with the byte tokenizer and a context of 32. The queries of its first layer are 0;
 * elsewhere a mixer with wq and wk of one shape has them equal. */
int spawn_checkpoint(int argc, char **argv);

/* It exited with code and one line on stderr that begins "weft " and holds
 * these words. */
void spawn_refused(const struct ran *r, const char *line, int code, const char *words);

#endif
