#include "data/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MANIFEST "manifest.json"

enum { MANIFEST_MAX = 1 << 20 };

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
static int walk(const char *dir,
                int (*each)(void *user, const char *name, struct why *why), void *user,
                struct why *why)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    int            rc = 0;

    if (!d)
        return fail(why, FAIL_INPUT, "%s: cannot open: %s", dir, strerror(errno));
    while (!rc && (errno = 0, e = readdir(d)))
        if (is_listed(e->d_name))
            rc = each(user, e->d_name, why);
    if (!rc && errno)
        rc = fail(why, FAIL_INPUT, "%s: cannot read: %s", dir, strerror(errno));
    closedir(d);
    return rc;
}

struct listing {
    const char *dir;
    json_t     *files;
};

/* ---- writing ----------------------------------------------------------------------- */

static int add_file(void *user, const char *name, struct why *why)
{
    struct listing *l = user;
    char            path[PATH_MAX], hex[17];
    uint64_t        hash, size;
    json_t         *entry;
    int             rc;

    rc = file_hash(path_join(path, sizeof path, l->dir, name), &hash, &size, why);
    if (rc)
        return rc;
    snprintf(hex, sizeof hex, "%016" PRIx64, hash);
    entry = json_pack("{s:I, s:s}", "size", (json_int_t)size, "xxh3", hex);
    if (json_object_set_new(l->files, name, entry))
        return fail(why, FAIL_WRITE, "%s: cannot be listed: its name is not UTF-8", path);
    return 0;
}

int manifest_write(const char *dir, struct why *why)
{
    struct listing l = {dir, json_object()};
    json_t        *root = json_pack("{s:o}", "files", l.files);
    char           path[PATH_MAX], *text = NULL;
    int            rc = walk(dir, add_file, &l, why) ? FAIL_WRITE : 0;

    if (!rc && !(text = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS)))
        rc = fail(why, FAIL_WRITE, "%s: no memory for its manifest", dir);
    if (!rc)
        rc = file_write(path_join(path, sizeof path, dir, MANIFEST), text, strlen(text),
                        why);
    free(text);
    json_decref(root);
    return rc;
}

/* ---- checking ---------------------------------------------------------------------- */

static int check_file(const char *dir, const char *name, json_t *entry, struct why *why)
{
    char         path[PATH_MAX], hex[17];
    const char  *want;
    json_int_t   bytes;
    json_error_t err;
    uint64_t     hash, size;
    struct stat  st;
    int          rc;

    if (!is_listed(name))
        return fail(why, FAIL_INPUT,
                    "%s/" MANIFEST ": lists '%s', which is no file of its own; %s", dir,
                    name, damaged);
    path_join(path, sizeof path, dir, name);
    if (json_unpack_ex(entry, &err, JSON_STRICT, "{s:I, s:s}", "size", &bytes, "xxh3",
                       &want))
        return fail(why, FAIL_INPUT, "%s/" MANIFEST ": entry '%s': %s; %s", dir, name,
                    err.text, damaged);
    if (stat(path, &st))
        return fail(why, FAIL_INPUT, "%s: listed in " MANIFEST ", but missing (%s); %s",
                    path, strerror(errno), damaged);
    if (S_ISREG(st.st_mode) && st.st_size != bytes)
        return fail(why, FAIL_INPUT, "%s: %lld bytes where " MANIFEST " says %lld; %s",
                    path, (long long)st.st_size, (long long)bytes, damaged);
    rc = file_hash(path, &hash, &size, why);
    if (rc)
        return rc;
    snprintf(hex, sizeof hex, "%016" PRIx64, hash);
    if (strcmp(hex, want))
        return fail(why, FAIL_INPUT,
                    "%s: its bytes have changed since " MANIFEST " was written; %s", path,
                    damaged);
    return 0;
}

static int find_entry(void *user, const char *name, struct why *why)
{
    struct listing *l = user;

    if (json_object_get(l->files, name))
        return 0;
    return fail(why, FAIL_INPUT, "%s/%s: not listed in " MANIFEST "; move it elsewhere",
                l->dir, name);
}

/* strays: refuse files that are not listed. */
static int check_all(const char *dir, json_t *root, bool strays, struct why *why)
{
    struct listing l = {dir, NULL};
    json_error_t   err;
    const char    *name;
    json_t        *entry;
    int            rc;

    if (json_unpack_ex(root, &err, JSON_STRICT, "{s:o}", "files", &l.files))
        return fail(why, FAIL_INPUT, "%s/" MANIFEST ": not a manifest: %s; %s", dir,
                    err.text, damaged);
    if (!json_is_object(l.files))
        return fail(why, FAIL_INPUT, "%s/" MANIFEST ": 'files' is not an object; %s", dir,
                    damaged);
    json_object_foreach(l.files, name, entry)
        if ((rc = check_file(dir, name, entry, why)))
            return rc;
    return strays ? walk(dir, find_entry, &l, why) : 0;
}

static int check(const char *dir, bool strays, struct why *why)
{
    char         path[PATH_MAX], *bytes;
    size_t       len;
    json_error_t err;
    json_t      *root;
    int          rc;

    rc = file_read(path_join(path, sizeof path, dir, MANIFEST), MANIFEST_MAX, &bytes,
                   &len, why);
    if (rc)
        return rc;
    root = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &err);
    free(bytes);
    if (!root)
        return fail(why, FAIL_INPUT, "%s:%d: not JSON: %s; %s", path, err.line, err.text,
                    damaged);
    rc = check_all(dir, root, strays, why);
    json_decref(root);
    return rc;
}

int manifest_check(const char *dir, struct why *why)
{
    return check(dir, true, why);
}

int manifest_check_listed(const char *dir, struct why *why)
{
    return check(dir, false, why);
}
