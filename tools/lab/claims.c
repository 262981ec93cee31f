#include "tools/lab/claims.h"

#include "data/base/file.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

static uint64_t hash_of(const struct experiment *e, const struct lab_claim *c)
{
    char text[2048];
    int  n = snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%s\n%s\n%s\n%d %.17g %d %d",
                      e->name, c->name, c->says, c->figure ? c->figure : "", c->arm,
                      c->column, c->gate ? c->gate : "", c->answer, c->limit, e->seeds,
                      e->quick);

    return XXH3_64bits(text, (size_t)n);
}

const char *claim_line(const struct experiment *e, const struct lab_claim *c,
                       char line[CLAIM_LINE])
{
    snprintf(line, CLAIM_LINE, "%016llx %s.%s", (unsigned long long)hash_of(e, c),
             e->name, c->name);
    return line;
}

void claims_print(FILE *f)
{
    char line[CLAIM_LINE];

    for (int i = 0; i < n_experiments; i++)
        for (const struct lab_claim *c = experiments[i]->claims; c && c->name; c++)
            fprintf(f, "%s\n", claim_line(experiments[i], c, line));
}

/* ---- records ---- */

/* Is this line, of n bytes, one of the text's? */
static bool stands_in(const char *text, const char *line, size_t n)
{
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");

        if (len == n && !strncmp(p, line, n))
            return true;
        p += len + (p[len] == '\n');
    }
    return false;
}

static enum fail check_record(const char *path, const char *known, struct checked *out,
                              struct why *why)
{
    static const char mark[] = "# claim ";
    char             *text;
    size_t            len;
    int               before = out->claims;
    enum fail         err = file_read(path, 64 << 20, &text, &len, why);

    if (err)
        return err;
    for (const char *p = text; !err && *p;) {
        size_t n = strcspn(p, "\n"), skip = strlen(mark);

        if (n > skip && !strncmp(p, mark, skip)) {
            out->claims++;
            if (!stands_in(known, p + skip, n - skip))
                err = fail(why, FAIL_INPUT, "%s: claim %.*s was not registered", path,
                           (int)(n - skip > 100 ? 100 : n - skip), p + skip);
        }
        p += n + (p[n] == '\n');
    }
    free(text);
    out->records++;
    if (!err && out->claims == before)
        err = fail(why, FAIL_INPUT, "%s: a record that names no claim", path);
    return err;
}

static bool is_record(const char *name)
{
    size_t n = strlen(name);

    return n > 4 && !strcmp(name + n - 4, ".csv");
}

static enum fail check_dir(const char *dir, const char *known, int depth,
                           struct checked *out, struct why *why)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    struct stat    st;
    char           path[PATH_MAX];
    enum fail      err = FAIL_NONE;

    if (!d)
        return fail(why, FAIL_INPUT, "%s: cannot be read", dir);
    while (!err && (e = readdir(d))) {
        path_join(path, sizeof path, dir, e->d_name);
        if (is_record(e->d_name))
            err = check_record(path, known, out, why);
        else if (depth && *e->d_name != '.' && !stat(path, &st) && S_ISDIR(st.st_mode))
            err = check_dir(path, known, depth - 1, out, why);
    }
    closedir(d);
    return err;
}

enum fail claims_check(const char *dir, const char *file, struct checked *out,
                       struct why *why)
{
    char     *known;
    size_t    len;
    enum fail err = file_read(file, 1 << 20, &known, &len, why);

    *out = (struct checked){0};
    if (err)
        return err;
    err = check_dir(dir, known, 1, out, why);
    free(known);
    if (!err && !out->records)
        err = fail(why, FAIL_INPUT, "%s: no record of weft lab in it", dir);
    return err;
}
