/* replay TRACE K WHAT SEED OUT: the files that a power cut after the first K operations
 * of a trace (tests/faults/preload.c) may leave, as a directory OUT. K 0: after all.
 *
 * Bytes are safe once their file was fsynced, names once their directory was; what came
 * after may be there or not. WHAT chooses:
 *
 *     least     only what is safe; a file that has a safe name and no safe bytes is empty
 *     names     every name, and only the safe bytes
 *     bytes     only the safe names, and every byte
 *     torn      of each directory's unsafe changes the first few, of each file's unsafe
 *               bytes none, half or all, drawn with SEED: a journal keeps the order
 *
 * Prints the number of operations, and the step of the checkpoint that must not be lost:
 * the one that `latest` meant when the next save began, or at the end of the trace.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NODES = 4096, NAME = 600 };
enum kind { NONE, FILE_NODE, DIR_NODE, LINK_NODE };

struct change {                 // one name in a directory, or gone
    char name[256];
    int  node;                  // 0: gone
};

struct node {
    enum kind      kind;
    char          *bytes, *safe;        // of a file, or the target of a link
    size_t         len, safe_len;
    struct change *log;                 // of a directory, in order
    size_t         n, n_safe;
};

static struct node node[NODES];
static int         n_nodes = 1, opened[NODES * 4];
static uint64_t    state;

static void *must(void *p)
{
    if (!p) {
        fputs("replay: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

static int new_node(enum kind kind)
{
    if (n_nodes == NODES) {
        fputs("replay: too many files\n", stderr);
        exit(1);
    }
    node[n_nodes].kind = kind;
    return n_nodes++;
}

/* What name means in a directory after its first n changes; 0: nothing. */
static int look(const struct node *d, const char *name, size_t n)
{
    while (n-- > 0)
        if (!strcmp(d->log[n].name, name))
            return d->log[n].node;
    return 0;
}

static void change(struct node *d, const char *name, int to)
{
    d->log = must(realloc(d->log, (d->n + 1) * sizeof *d->log));
    snprintf(d->log[d->n].name, sizeof d->log->name, "%s", name);
    d->log[d->n++].node = to;
}

/* The directory that holds path, and in *last its last component. */
static struct node *walk(const char *path, const char **last)
{
    char  buf[NAME], *part = buf, *slash;
    int   at = 1;

    snprintf(buf, sizeof buf, "%s", path);
    while ((slash = strchr(part, '/'))) {
        *slash = 0;
        at = look(&node[at], part, node[at].n);
        part = slash + 1;
    }
    *last = path + (part - buf);
    return &node[at];
}

static int find(const char *path)
{
    const char  *last;
    struct node *d = walk(path, &last);

    return strcmp(path, ".") ? look(d, last, d->n) : 1;
}

static void name(const char *path, int to)
{
    const char  *last;
    struct node *d = walk(path, &last);

    change(d, last, to);
}

static void set_len(struct node *f, size_t len)
{
    f->bytes = must(realloc(f->bytes, len + 1));
    if (len > f->len)
        memset(f->bytes + f->len, 0, len - f->len);
    f->len = len;
}

static void sync_node(struct node *f)
{
    f->n_safe = f->n;
    f->safe = must(realloc(f->safe, f->len + 1));
    if (f->len)
        memcpy(f->safe, f->bytes, f->len);
    f->safe_len = f->len;
}

/* The bytes of the trace at `from` go to a file. */
static void write_bytes(struct node *f, FILE *data, long long at, long long n,
                        long long from)
{
    if ((size_t)(at + n) > f->len)
        set_len(f, (size_t)(at + n));
    if (fseek(data, (long)from, SEEK_SET) ||
        fread(f->bytes + at, 1, (size_t)n, data) != (size_t)n)
        exit(1);
}

/* The step that `latest` means in any directory, or -1. */
static long newest(void)
{
    for (int i = 1; i < n_nodes; i++) {
        int l = node[i].kind == DIR_NODE ? look(&node[i], "latest", node[i].n) : 0;

        if (l && node[l].kind == LINK_NODE)
            return atol(node[l].bytes + strlen("ckpt-"));
    }
    return -1;
}

static void take(const char *line, FILE *data, long *need)
{
    char      a[NAME] = "", b[NAME] = "";
    long      id;
    long long x, y, z;
    int       i;

    if (sscanf(line, "O %ld %599s", &id, a) == 2)
        opened[id] = find(a);
    else if (sscanf(line, "T %ld %lld", &id, &x) == 2)
        set_len(&node[opened[id]], (size_t)x);
    else if (sscanf(line, "W %ld %lld %lld %lld", &id, &x, &y, &z) == 4)
        write_bytes(&node[opened[id]], data, x, y, z);
    else if (sscanf(line, "S %ld", &id) == 1)
        sync_node(&node[opened[id]]);
    else if (sscanf(line, "C %599s", a) == 1)
        name(a, new_node(FILE_NODE));
    else if (sscanf(line, "D %599s", a) == 1) {
        if (strstr(a, "ckpt-"))
            *need = newest();
        name(a, new_node(DIR_NODE));
    } else if (sscanf(line, "U %599s", a) == 1)
        name(a, 0);
    else if (sscanf(line, "R %599s %599s", a, b) == 2) {
        i = find(a);
        name(a, 0);
        name(b, i);
    } else if (sscanf(line, "H %599s %599s", a, b) == 2)
        name(b, find(a));
    else if (sscanf(line, "L %599s %599s", a, b) == 2) {
        i = new_node(LINK_NODE);
        node[i].bytes = must(strdup(a));
        name(b, i);
    }
}

static size_t draw(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(state >> 33) % n : 0;
}

static void build_file(const struct node *f, const char *what, const char *path)
{
    bool   all = !strcmp(what, "bytes"), torn = !strcmp(what, "torn");
    size_t chance = torn ? draw(3) : 0;
    bool   now = all || chance > 0;
    size_t len = now ? f->len / (chance == 1 ? 2 : 1) : f->safe_len;
    int    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);

    if (chance == 1 && len < f->safe_len)
        len = f->safe_len, now = false;
    if (fd < 0 || write(fd, now ? f->bytes : f->safe, len) != (ssize_t)len) {
        perror(path);
        exit(1);
    }
    close(fd);
}

static void build_dir(const struct node *d, const char *what, const char *path)
{
    size_t n = !strcmp(what, "names")  ? d->n
               : !strcmp(what, "torn") ? d->n_safe + draw(d->n - d->n_safe + 1)
                                       : d->n_safe;
    char   to[PATH_MAX];

    mkdir(path, 0777);
    for (size_t i = 0; i < n; i++) {
        const struct node *e = &node[d->log[i].node];

        if (!d->log[i].node || look(d, d->log[i].name, n) != d->log[i].node)
            continue;
        snprintf(to, sizeof to, "%s/%s", path, d->log[i].name);
        if (!access(to, F_OK))
            continue;
        if (e->kind == DIR_NODE)
            build_dir(e, what, to);
        else if (e->kind == LINK_NODE && !symlink(e->bytes, to))
            ;
        else if (e->kind == FILE_NODE)
            build_file(e, what, to);
    }
}

int main(int argc, char **argv)
{
    char  path[PATH_MAX], line[2 * NAME + 64];
    long  n = 0, need = -1, k = argc == 6 ? atol(argv[2]) : 0;
    bool  done = true;
    FILE *trace = argc == 6 ? fopen(argv[1], "r") : NULL, *data;

    snprintf(path, sizeof path, "%s.data", argc == 6 ? argv[1] : "");
    data = fopen(path, "r");
    if (!trace || !data) {
        fputs("replay TRACE K least|names|bytes|torn SEED OUT\n", stderr);
        return 2;
    }
    state = strtoull(argv[4], NULL, 10) * 2654435761u + 1;
    new_node(DIR_NODE);
    while (fgets(line, sizeof line, trace)) {
        if (k && n == k)
            done = false;
        if (done)
            take(line, data, &need);
        n++;
    }
    if (done)
        need = newest();
    build_dir(&node[1], argv[3], argv[5]);
    printf("%ld %ld\n", n, need < 0 ? 0 : need);
    return 0;
}
