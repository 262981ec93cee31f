/* What a server serves: a checkpoint, a run, which may still be training, or the
 * architectures of a comparison.
 *
 * A thread looks at every run each second. Where `latest` has moved on, it loads the new
 * checkpoint, and requests from then on get that one; those under way keep theirs. A
 * checkpoint that cannot be loaded leaves the older one in its place; without one,
 * requests get to know why.
 */
#ifndef WEFT_SERVED_H
#define WEFT_SERVED_H

#include "data/base/json.h"
#include "infer/serve/engine.h"

struct served;

struct served_options {
    const char *path;
    int         slots;          // sequences at once, of each model
    size_t      cache;          // bytes of prompts, of each model
};

/* Find out what path is, and begin to load. A run that has no checkpoint yet is fine
 * while `training`: somebody trains it, or is about to. What nobody trains is loaded
 * before this returns: no other checkpoint would come. FAIL_INPUT, FAIL_MEMORY. */
enum fail served_open(struct served **s, const struct served_options *o, bool training,
                      struct why *why);
void served_close(struct served *s);                        // NULL is fine

/* The newest engine of the model of this name ("book", "book@820"; NULL or, when there is
 * one model only, anything: the first), held; NULL: no such model (*known is false), or
 * it is not loaded, and why. */
struct engine *served_engine(struct served *s, const char *name, bool *known,
                             struct why *why);

/* A checkpoint could not be loaded: why, each time once. */
bool served_refused(struct served *s, struct why *why);

/* Its name; the path of its run's log into log (PATH_MAX). False: no such model. */
bool served_log(struct served *s, const char *name, char *log);

bool served_ready(struct served *s);            // some model is loaded
long served_changes(struct served *s);          // a number that grows when JSON changes
json_t *served_json(struct served *s);          // what /served answers
json_t *served_list(struct served *s);          // what /v1/models answers
long served_reloads(struct served *s);

#endif
