/* weft data stories: write the built-in corpus, or check texts against its grammar. */
#include "data/base/cli.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/stories/stories.h"
#include "data/text.h"
#include "tools/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "weft data stories --bytes 5M > stories.txt\n"
    "weft data stories [--bytes N] [--seed S] [--out FILE]\n"
    "weft data stories --check FILE\n"
    "\n"
    "Writes the built-in corpus: stories parted by lines <|endoftext|>. The same seed\n"
    "writes the same stories, and more bytes begin with the same ones. The bits per\n"
    "byte it reports are the entropy of what it wrote: no model does better on\n"
    "average. A check says of each text that is no story at which byte it breaks, and\n"
    "whether its form is wrong or it contradicts a fact that it stated; exit code 3\n"
    "when there is one. Of all texts together it says how many names after the\n"
    "opening are those of somebody whom the text knows; of stories all are.\n"
    "\n"
    "  weft infer runs/stories -p Once -n 600 | weft data stories --check -\n";

static const char mark[] = "<|endoftext|>\n";

struct totals {
    uint64_t texts, stories, facts;     // facts: texts that contradict themselves
    uint64_t bytes;                     // of the stories, with the newline that ends each
    uint64_t names, known;              // story_names of all texts
    double   bits;
};

static double bits_per_byte(const struct totals *t)
{
    return t->bytes ? t->bits / (double)t->bytes : 0;
}

/* ---- writing ---- */

/* Stories from the first on, until there are enough bytes. */
static enum fail write_stories(struct file *to, uint64_t seed, uint64_t bytes,
                               struct totals *t, struct why *why)
{
    char      buf[STORY_MAX + sizeof mark];
    enum fail err = 0;

    while (!err && t->bytes < bytes && !interrupted) {
        struct rng r = rng_open(seed, RNG_STORY, t->stories);
        double     bits;
        size_t     n = story_write(&r, buf, STORY_MAX, &bits);

        buf[n++] = '\n';
        t->stories++;
        t->bytes += n;
        t->bits += bits;
        memcpy(buf + n, mark, sizeof mark - 1);
        err = file_put(to, buf, n + sizeof mark - 1, why);
    }
    return err;
}

/* Whole or not at all. */
static void write_file(const struct cli *c, const char *path, uint64_t seed,
                       uint64_t bytes, struct totals *t)
{
    struct file f;
    struct why  why;
    enum fail   err;

    if (path_exists(path))
        cli_die(c, FAIL_WRITE, "%s: exists already; remove it or give another name",
                path);
    catch_interrupts();
    err = file_begin(&f, path, &why);
    if (err)
        cli_fail(c, err, &why);
    err = write_stories(&f, seed, bytes, t, &why);
    if (!err && interrupted)
        err = fail(&why, FAIL_INTERRUPTED, "interrupted; nothing was written");
    if (err)
        file_abort(&f);
    else
        err = file_commit(&f, &why);
    if (err)
        cli_fail(c, err, &why);
}

static int write_corpus(const struct cli *c, const char *out, uint64_t seed,
                        uint64_t bytes)
{
    struct totals t = {0};
    struct file   plain = {.fd = STDOUT_FILENO, .path = "stdout"};
    struct why    why;
    enum fail     err = 0;

    if (out)
        write_file(c, out, seed, bytes, &t);
    else
        err = write_stories(&plain, seed, bytes, &t, &why);
    if (err)
        cli_fail(c, err, &why);
    fprintf(stderr,
            "%llu %s, %llu bytes, %.4f bits per byte, which no model beats\n",
            (unsigned long long)t.stories, t.stories == 1 ? "story" : "stories",
            (unsigned long long)t.bytes, bits_per_byte(&t));
    return 0;
}

/* ---- checking ---- */

/* The text around a fault, on one line: at most n printable bytes from at on. */
static const char *excerpt(char *buf, size_t cap, const char *text, size_t len, size_t at)
{
    size_t n = 0;

    for (; n < cap - 1 && at + n < len; n++)
        buf[n] = text[at + n] >= ' ' && text[at + n] <= '~' ? text[at + n] : ' ';
    buf[n] = 0;
    return buf;
}

static void check_one(const char *path, const char *text, size_t len, struct totals *t)
{
    struct story_fault fault;
    double             bits;
    char               near[41];
    struct story_names names = story_names(text, len);

    t->texts++;
    t->names += (uint64_t)names.all;
    t->known += (uint64_t)names.known;
    if (len <= STORY_MAX && story_check(text, len, &bits, &fault)) {
        t->stories++;
        t->bytes += len;
        t->bits += bits;
        return;
    }
    if (len > STORY_MAX)
        story_check(text, STORY_MAX, &bits, &fault);
    t->facts += fault.fact;
    excerpt(near, sizeof near, text, len, fault.at);
    say(stdout, "%s: text %llu breaks at byte %zu (%s): %s%s%s%s\n", path,
           (unsigned long long)t->texts, fault.at, fault.fact ? "fact" : "form",
           fault.what, *near ? "; it has \"" : "", near, *near ? "\"" : "");
}

static int check_file(const struct cli *c, const char *path)
{
    struct totals     t = {0};
    struct text      *in;
    struct text_piece piece;
    struct why        why;
    char              text[STORY_MAX + 1];
    size_t            len = 0;
    enum fail         err = text_open(&in, &path, 1, NULL, &why);

    if (err)
        cli_fail(c, err, &why);
    while (!(err = text_next(in, &piece, &why)) && piece.bytes) {
        size_t room = sizeof text - len, n = piece.len < room ? piece.len : room;

        memcpy(text + len, piece.bytes, n);
        len += n;
        if (piece.last) {
            check_one(path, text, len, &t);
            len = 0;
        }
    }
    text_close(in);
    if (err)
        cli_fail(c, err, &why);
    uint64_t form = t.texts - t.stories - t.facts;

    say(stdout, "%llu of %llu texts are stories; %llu %s the form, %llu %s a fact",
           (unsigned long long)t.stories,
           (unsigned long long)t.texts, (unsigned long long)form,
           form == 1 ? "breaks" : "break", (unsigned long long)t.facts,
           t.facts == 1 ? "contradicts" : "contradict");
    if (t.stories)
        say(stdout, "; %.4f bits per byte", bits_per_byte(&t));
    if (t.names)
        say(stdout, "; of %llu names %.0f %% are known from before",
            (unsigned long long)t.names, 100.0 * (double)t.known / (double)t.names);
    putchar('\n');
    return t.stories < t.texts ? FAIL_INPUT : FAIL_NONE;
}

int stories_main(int argc, char **argv)
{
    const char *out = NULL, *check = NULL;
    long        bytes = 0;
    uint64_t    seed = 1;

    const struct flag flags[] = {
        {"bytes", 'n', "N", "how much: 5000, 200k, 5M (10M; on a terminal a story)",
         .count = &bytes, .min = 1, .max = 1e15},
        {"seed", 0, "S", "which stories (1)", .seed = &seed},
        {"out", 'o', "FILE", "where to; it must not exist yet (stdout)", .text = &out},
        {"check", 0, "FILE", "check this text instead of writing; - is stdin",
         .text = &check},
        {0},
    };
    struct cli c = {.verb = "data stories", .help = help, .flags = flags};

    cli_parse(&c, argc, argv);
    if (c.n_args)
        cli_die(&c, FAIL_USAGE, "what is '%s' for? To check it: weft data stories "
                "--check %s", c.args[0], c.args[0]);
    if (check && (out || bytes))
        cli_die(&c, FAIL_USAGE, "--check goes without --out and --bytes");
    if (check)
        return check_file(&c, check);
    if (!bytes)
        bytes = !out && isatty(STDOUT_FILENO) ? 1 : 10000000;
    return write_corpus(&c, out, seed, (uint64_t)bytes);
}
