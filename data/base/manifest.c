#include "data/base/file.h"
#include "data/base/json.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MANIFEST "manifest.json"

enum { MANIFEST_MAX = 1 << 20 };

static const char advice[] = "use an earlier checkpoint or a copy";
static const char damaged[] = "it is damaged; use an earlier checkpoint or a copy";

/* Whether a manifest lists a file of this name. */
static bool is_listed(const char *name)
{
    static const char *const never[] = {"", ".", "..", "lock", MANIFEST};

    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (!strcmp(name, never[i]))
            return false;
    return !strchr(name, '/') && !path_is_temporary(name);
}

/* Call each(user, name) for every file that a manifest of dir lists, until one fails. */
static enum fail walk(const char *dir,
                      enum fail (*each)(void *user, const char *name, struct why *why),
                      void *user, struct why *why)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    enum fail      err = 0;

    if (!d)
        return fail(why, FAIL_INPUT, "%s: cannot open: %s", dir, strerror(errno));
    while (!err && (errno = 0, e = readdir(d)))
        if (is_listed(e->d_name))
            err = each(user, e->d_name, why);
    if (!err && errno)
        err = fail(why, FAIL_INPUT, "%s: cannot read: %s", dir, strerror(errno));
    closedir(d);
    return err;
}

struct listing {
    const char *dir;
    json_t     *files;
};

/* ---- writing ----------------------------------------------------------------------- */

static enum fail add_file(void *user, const char *name, struct why *why)
{
    struct listing *l = user;
    char            path[PATH_MAX], hex[17];
    uint64_t        hash, size;
    json_t         *entry;
    enum fail       err;

    err = file_hash(path_join(path, sizeof path, l->dir, name), &hash, &size, why);
    if (err)
        return err;
    snprintf(hex, sizeof hex, "%016" PRIx64, hash);
    entry = json_pack("{s:I, s:s}", "size", (json_int_t)size, "xxh3", hex);
    if (json_object_set_new(l->files, name, entry))
        return fail(why, FAIL_WRITE, "%s: cannot be listed: its name is not UTF-8", path);
    return 0;
}

enum fail manifest_write(const char *dir, struct why *why)
{
    struct listing l = {dir, json_object()};
    json_t        *root = json_pack("{s:o}", "files", l.files);
    char           path[PATH_MAX];
    enum fail      err = walk(dir, add_file, &l, why);

    if (err == FAIL_INPUT) // its own files, which it has just written
        err = FAIL_WRITE;
    if (!err)
        return json_write(path_join(path, sizeof path, dir, MANIFEST), root,
                          JSON_INDENT(2) | JSON_SORT_KEYS, why);
    json_decref(root);
    return err;
}

/* ---- checking ---------------------------------------------------------------------- */

static enum fail check_file(const char *dir, const char *name, json_t *entry,
                            struct why *why)
{
    char         path[PATH_MAX], hex[17];
    const char  *want;
    json_int_t   bytes;
    json_error_t bad;
    uint64_t     hash, size;
    struct stat  st;
    enum fail    err;

    if (!is_listed(name))
        return fail(why, FAIL_INPUT,
                    "%s/" MANIFEST ": lists '%s', which is no file of its own; %s", dir,
                    name, damaged);
    path_join(path, sizeof path, dir, name);
    bool read = !json_unpack_ex(entry, &bad, JSON_STRICT, "{s:I, s:s}", "size", &bytes,
                                "xxh3", &want);

    if (json_ran_out())
        return fail(why, FAIL_MEMORY, "%s/" MANIFEST ": out of memory", dir);
    if (!read)
        return fail(why, FAIL_INPUT, "%s/" MANIFEST ": entry '%s': %s; %s", dir, name,
                    bad.text, damaged);
    if (stat(path, &st))
        return fail(why, FAIL_INPUT, "%s: listed in " MANIFEST ", but missing (%s); %s",
                    path, strerror(errno), damaged);
    if (S_ISREG(st.st_mode) && st.st_size != bytes)
        return fail(why, FAIL_INPUT, "%s: %lld bytes where " MANIFEST " says %lld; %s",
                    path, (long long)st.st_size, (long long)bytes, damaged);
    err = file_hash(path, &hash, &size, why);
    if (err)
        return err;
    snprintf(hex, sizeof hex, "%016" PRIx64, hash);
    if (strcmp(hex, want))
        return fail(why, FAIL_INPUT,
                    "%s: its bytes have changed since " MANIFEST " was written; %s", path,
                    damaged);
    return 0;
}

static enum fail find_entry(void *user, const char *name, struct why *why)
{
    struct listing *l = user;

    if (json_object_get(l->files, name))
        return 0;
    return fail(why, FAIL_INPUT, "%s/%s: not listed in " MANIFEST "; move it elsewhere",
                l->dir, name);
}

/* strays: refuse files that are not listed. */
static enum fail check_all(const char *dir, json_t *root, bool strays, struct why *why)
{
    struct listing l = {dir, NULL};
    json_error_t   bad;
    const char    *name;
    json_t        *entry;
    enum fail      err;

    bool read = !json_unpack_ex(root, &bad, JSON_STRICT, "{s:o}", "files", &l.files);

    if (json_ran_out())
        return fail(why, FAIL_MEMORY, "%s/" MANIFEST ": out of memory", dir);
    if (!read)
        return fail(why, FAIL_INPUT, "%s/" MANIFEST ": not a manifest: %s; %s", dir,
                    bad.text, damaged);
    if (!json_is_object(l.files))
        return fail(why, FAIL_INPUT, "%s/" MANIFEST ": 'files' is not an object; %s", dir,
                    damaged);
    json_object_foreach(l.files, name,
                        entry) if ((err = check_file(dir, name, entry, why))) return err;
    return strays ? walk(dir, find_entry, &l, why) : 0;
}

static enum fail check(const char *dir, bool strays, struct why *why)
{
    char      path[PATH_MAX];
    json_t   *root;
    enum fail err = json_read(&root, path_join(path, sizeof path, dir, MANIFEST),
                              MANIFEST_MAX, advice, why);

    if (err)
        return err;
    err = check_all(dir, root, strays, why);
    json_decref(root);
    return err;
}

enum fail manifest_check(const char *dir, struct why *why)
{
    return check(dir, true, why);
}

enum fail manifest_check_listed(const char *dir, struct why *why)
{
    return check(dir, false, why);
}
