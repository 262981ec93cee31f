/* The story grammar: what it writes it reads, with the same bits; what it did not write
 * it refuses, and says where and why. */
#include "data/base/fail.h"
#include "data/stories/grammar.h"
#include "data/stories/stories.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int stories_main(int argc, char **argv);

/* A story of the grammar, with a fact of each sort. */
static const char kite[] =
    "A long time ago, there lived an elephant called Ned, who lived all alone at the "
    "end of the lane. He was quite playful and adored dumplings. His oldest friend was "
    "Leo, a gentle fox who liked nothing better than raisins.\n"
    "Ned owned an enormous kite, and nobody else had one like it. "
    "One foggy afternoon, Ned and Leo made their way to the willow to have a picnic. "
    "Ned laid the enormous kite in a flower bed so that it would stay dry. When they had "
    "had enough, they marched to the orchard. They ate boiled eggs, though Ned would "
    "rather have had dumplings.\n"
    "When it grew dark, Ned looked for the enormous kite, but it was gone. \"Oh dear, "
    "my kite is gone!\" groaned Ned. So they looked in the orchard, "
    "but it was not there. All at once Leo remembered. \"You left it under the willow, "
    "in a flower bed!\" he murmured. They trotted back to the willow, looked in a flower "
    "bed, and there was the enormous kite. Ned was so happy that he made Leo a whole "
    "basket of raisins.\n"
    "Who had the enormous kite now? Ned had it. The end.";

/* The story with the first `old` replaced. */
static char *edited(const char *old, const char *new)
{
    const char *at = strstr(kite, old);
    char       *text = malloc(sizeof kite + strlen(new));

    ck_assert_msg(at != NULL, "the story has no '%s'", old);
    sprintf(text, "%.*s%s%s", (int)(at - kite), kite, new, at + strlen(old));
    return text;
}

static size_t nth(uint64_t seed, uint64_t n, char *buf, double *bits)
{
    struct rng r = rng_open(seed, RNG_STORY, n);
    size_t     len = story_write(&r, buf, STORY_MAX, bits);

    ck_assert_msg(len > 0, "story %d of seed %d was not written", (int)n, (int)seed);
    return len;
}

/* ---- the grammar ---- */

START_TEST(the_rules_are_well_formed)
{
    ck_assert_str_eq(story_program_error(), "");
    ck_assert_ptr_nonnull(story_program());
}
END_TEST

START_TEST(every_choice_always_has_an_alternative)
{
    const struct node *p = story_program();
    int                choices = 0, ends = 0;

    for (int i = 0; p[i].op != END || p[i + 1].op != TEXT || p[i + 1].text; i++) {
        int open = 0;

        ends += p[i].op == END;
        choices += p[i].op == CHOICE;
        for (int a = 1; p[i].op == CHOICE && a <= p[i].n; a++) {
            ck_assert_int_eq(p[i + a].op, ALTERNATIVE);
            ck_assert_int_gt(p[i + a].n, 0);
            open += p[p[i + a].to].op != NEED;
        }
        ck_assert_msg(p[i].op != CHOICE || open,
                      "the choice at node %d may be closed", i);
    }
    ck_assert_int_gt(choices, 300);
    ck_assert_int_gt(ends, 60);
}
END_TEST

START_TEST(no_word_begins_with_another_of_its_class)
{
    const struct class *c = &story_classes[_i];

    ck_assert_int_le(c->n, 64);
    for (int a = 0; a < c->n; a++)
        for (int b = 0; b < c->n; b++) {
            const char *text = c->words[a].text, *other = c->words[a].other;

            ck_assert_msg(a == b || strncmp(c->words[b].text, text, strlen(text)),
                          "'%s' begins with '%s'", c->words[b].text, text);
            ck_assert_msg(a == b || !other || _i == NAME || _i == PLACE ||
                          strncmp(c->words[b].other, other, strlen(other)),
                          "'%s' begins with '%s'", c->words[b].other, other);
        }
}
END_TEST

/* ---- writing and reading ---- */

START_TEST(reading_gives_the_bits_of_writing)
{
    struct story_fault fault;
    char               text[STORY_MAX + 1];
    double             wrote, read;

    for (uint64_t n = 0; n < 2500; n++) {
        size_t len = nth((uint64_t)_i * 1000003, n, text, &wrote);

        ck_assert_msg(story_check(text, len, &read, &fault),
                      "story %d, byte %zu: %s", (int)n, fault.at, fault.what);
        ck_assert_double_eq(read, wrote);
        text[len] = '\n';
        ck_assert(stories_floor(text, len + 1, &read));
        ck_assert_double_eq(read, wrote);
    }
}
END_TEST

START_TEST(a_story_depends_on_seed_and_index_alone)
{
    char   a[STORY_MAX], b[STORY_MAX];
    double bits, again;
    size_t len = nth(5, 70, a, &bits);

    nth(5, 71, b, &again);
    ck_assert_uint_eq(nth(5, 70, b, &again), len);
    ck_assert_double_eq(bits, again);
    ck_assert_mem_eq(a, b, len);
    ck_assert(nth(6, 70, b, &again) != len || memcmp(a, b, len));
}
END_TEST

START_TEST(a_story_that_does_not_fit_is_not_written)
{
    char       text[STORY_MAX];
    double     bits;
    size_t     len = nth(1, 3, text, &bits);
    struct rng r = rng_open(1, RNG_STORY, 3);

    memset(text, 'x', sizeof text);
    ck_assert_uint_eq(story_write(&r, text, len - 1, &bits), 0);
    ck_assert_int_eq(text[len - 1], 'x');
    r = rng_open(1, RNG_STORY, 3);
    ck_assert_uint_eq(story_write(&r, text, len, &bits), len);
}
END_TEST

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

START_TEST(ten_thousand_stories_are_all_different)
{
    enum { N = 10000 };
    static uint64_t hash[N];
    char            text[STORY_MAX];
    double          bits;

    for (uint64_t n = 0; n < N; n++) {
        size_t len = nth(2, n, text, &bits);

        hash[n] = 14695981039346656037u;
        for (size_t i = 0; i < len; i++)
            hash[n] = (hash[n] ^ (unsigned char)text[i]) * 1099511628211u;
    }
    qsort(hash, N, sizeof *hash, compare);
    for (int n = 1; n < N; n++)
        ck_assert(hash[n] != hash[n - 1]);
}
END_TEST

START_TEST(stories_are_tidy_english)
{
    static const char *const wrong[] = {
        "  ", " \n", " .", " ,", "..", "{", "}", "[", "]", "(", ")", "<", ">", "|", "`",
        " a a", " a e", " a i", " a o", " a u", " an b", " an s", "\n\n", ".\"\"",
        " the the "};
    char   text[STORY_MAX + 1];
    double bits, sum = 0, sum_bits = 0;

    for (uint64_t n = 0; n < 5000; n++) {
        size_t len = nth(3, n, text, &bits);

        text[len] = 0;
        sum += (double)len;
        sum_bits += bits;
        ck_assert_msg(len >= 400 && len <= STORY_MAX / 3, "%d bytes", (int)len);
        ck_assert_msg(text[len - 1] == '.', "ends in '%s'", text + len - 10);
        ck_assert(text[0] >= 'A' && text[0] <= 'Z');
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
            ck_assert_msg(!strstr(text, wrong[i]), "'%s' in: %s", wrong[i], text);
        for (const char *p = text; (p = strpbrk(p, ".?!\n")); p++)
            ck_assert_msg(!(p[1] == ' ' && p[2] >= 'a' && p[2] <= 'z'), "%.30s", p);
    }
    ck_assert_double_gt(sum / 5000, 800);
    ck_assert_double_lt(sum / 5000, 1400);
    ck_assert_double_gt(sum_bits / sum, 0.2);
    ck_assert_double_lt(sum_bits / sum, 1.0);
}
END_TEST

/* ---- what a probability means ---- */

/* Two ways to begin the story, to end it, or to place its home: how often each is written
 * must be as the bits say. */
enum where { FIRST, LATE, ANY };

static const struct { const char *old, *new; enum where where; } rival[] = {
    {"A long time ago,", "Once upon a time,", FIRST},
    {"A long time ago,", "Before there were trains,", FIRST},
    {"The end.", "That is all.", LATE},
    {"The end.", "This is where the story ends.", LATE},
    {" at the end of the lane", " in the old town", ANY},
    {" at the end of the lane", " near the sea", ANY},
};

static bool has(const char *text, size_t len, const char *part, enum where where)
{
    size_t n = strlen(part);

    if (where == ANY)
        return memmem(text, len, part, n);
    return len >= n && !memcmp(where == LATE ? text + len - n : text, part, n);
}

START_TEST(frequencies_are_as_the_bits_say)
{
    struct story_fault fault;
    char   text[STORY_MAX], *other = edited(rival[_i].old, rival[_i].new);
    double bits[2], count[2] = {0};

    ck_assert_msg(story_check(kite, strlen(kite), &bits[0], &fault), "%zu: %s", fault.at,
                  fault.what);
    ck_assert(story_check(other, strlen(other), &bits[1], &fault));
    for (uint64_t n = 0; n < 30000; n++) {
        size_t len = nth(4, n, text, &(double){0});

        count[0] += has(text, len, rival[_i].old, rival[_i].where);
        count[1] += has(text, len, rival[_i].new, rival[_i].where);
    }
    double share = 1 / (1 + exp2(bits[1] - bits[0])), all = count[0] + count[1];

    ck_assert_double_gt(all, 300);
    ck_assert_double_lt(fabs(count[1] - share * all),
                        4 * sqrt(all * share * (1 - share)));
    free(other);
}
END_TEST

/* ---- what is no story ---- */

static const struct { const char *old, *new; bool fact; const char *what; } broken[] = {
    {"it under the willow", "it in the barn", true,
     "the enormous kite is under the willow, not in the barn"},
    {"back to the willow", "back to the mill", true, "it is the willow, not the mill"},
    {"willow, in a flower bed", "willow, in a nest", true,
     "the enormous kite is in a flower bed, not in a nest"},
    {"looked in the orchard", "looked in the meadow", true,
     "it is in the orchard, not in the meadow"},
    {"of raisins", "of plums", true, "Leo loves raisins, not plums"},
    {"Ned would rather", "Leo would rather", true, "Leo loves raisins, not dumplings"},
    {"Ned had it", "Leo had it", true, "the enormous kite is with Ned, not with Leo"},
    {"my kite", "my drum", true, "it is kite, not drum"},
    {"there was the enormous kite", "there was the tiny kite", true,
     "it is the enormous kite, not the tiny kite"},
    {"he murmured", "she murmured", true, "Leo is he, not she"},
    {"was Leo, a", "was Ned, a", true, "Ned has its part in the story already"},
    {"gentle fox", "gentle elephant", true, "elephant has its part in the story already"},
    {"Ned would rather", "Tom would rather", true, "Tom has no part in this story"},
    {"boiled", "boild", false, "expected \"ed eggs\""},
    {"boiled eggs", "boiled  eggs", false, "expected"},
    {"a whole", "an whole", false, "expected"},
    {"When they had had enough, they marched to the orchard. ", "", false, "expected"},
    {"All at once Leo remembered. ", "", false, "expected"},
    {"The end.", "The end. ", false, "expected the end"},
    {"The end.", "The end. Ned slept.", false, "expected the end"},
    {"The end.", "", false, "the text ends before"},
    {"A long", "a long", false, "expected"},
    {"Ned had it. ", "", false, "expected"},
    {"to the willow to have", "to the moon to have", false, "expected a place"},
};

START_TEST(a_broken_story_is_refused_with_its_reason)
{
    struct story_fault fault;
    double             bits;
    char              *text = edited(broken[_i].old, broken[_i].new);
    size_t             edit = (size_t)(strstr(kite, broken[_i].old) - kite);

    ck_assert(!story_check(text, strlen(text), &bits, &fault));
    ck_assert(!stories_floor(text, strlen(text), &bits));
    ck_assert_msg(fault.fact == broken[_i].fact && strstr(fault.what, broken[_i].what),
                  "'%s' for '%s': byte %zu, %s: %s", broken[_i].new, broken[_i].old,
                  fault.at, fault.fact ? "fact" : "form", fault.what);
    ck_assert_msg(fault.at >= edit && fault.at < edit + strlen(broken[_i].new) + 40,
                  "'%s' at %zu, said to be at %zu", broken[_i].new, edit, fault.at);
    free(text);
}
END_TEST

START_TEST(a_story_cut_anywhere_is_refused)
{
    struct story_fault fault;
    double             bits;

    for (size_t len = 0; len < strlen(kite); len++) {
        ck_assert_msg(!story_check(kite, len, &bits, &fault), "accepted: %.*s",
                      (int)len, kite);
        ck_assert(!fault.fact);
    }
    ck_assert(story_check(kite, strlen(kite), &bits, &fault));
}
END_TEST

/* Names after the opening, and those of them that are known. */
static void assert_names(const char *text, int all, int known)
{
    struct story_names n = story_names(text, strlen(text));

    ck_assert_msg(n.all == all && n.known == known, "%d names, %d known in: %s", n.all,
                  n.known, text);
}

START_TEST(a_story_knows_its_names_from_before)
{
    char   text[STORY_MAX];
    double bits;
    int    all = 0;

    for (uint64_t n = 0; n < 2000; n++) {
        struct story_names names = story_names(text, nth(7, n, text, &bits));

        ck_assert_msg(names.all > 0 && names.known == names.all,
                      "story %d: %d of %d names", (int)n, names.known, names.all);
        all += names.all;
    }
    ck_assert_int_gt(all, 10 * 2000);
}
END_TEST

START_TEST(names_that_nobody_introduced_are_counted)
{
    char *text = edited("All at once Leo", "All at once Zoe");

    assert_names(kite, 11, 11);
    assert_names(text, 11, 10);
    free(text);
    assert_names("Tom met Ben.\nTom, Zoe", 2, 1);
    assert_names("Tom met Ben.\nZoe, a shy fox, and Zoe", 1, 1);
    assert_names("Tom met Ben.\nThen Zoe came by, an owl. Zoe, an owl", 1, 1);
    assert_names("Tom met Ben.\nTomorrow Bend, atTom, Zoes", 0, 0);
    assert_names("Tom, Ben and Zoe", 0, 0);
    assert_names("", 0, 0);
    assert_names("\nTom", 1, 0);
}
END_TEST

START_TEST(any_bytes_are_refused_without_harm)
{
    struct story_fault fault;
    double             bits;
    char               text[STORY_MAX];

    for (uint64_t n = 0; n < 300; n++) {
        struct rng r = rng_open(9, RNG_TEST, n);
        size_t     len = nth(9, n, text, &bits);

        text[rng_below(&r, len)] = (char)(128 + rng_below(&r, 127));
        ck_assert(!story_check(text, len, &bits, &fault));
        for (size_t i = 0; i < len; i++)
            text[i] = (char)rng_below(&r, 256);
        ck_assert(!story_check(text, len, &bits, &fault));
    }
}
END_TEST

/* ---- the verb ---- */

/* Run it with these words (a file name F below dir where they say F); returns the exit
 * code, and what it printed on stdout and stderr in dir/out. */
static int run(const char *dir, const char *words)
{
    char  copy[256], path[512], *argv[12] = {"stories"};
    int   argc = 1, status;
    pid_t child;

    snprintf(copy, sizeof copy, "%s", words);
    snprintf(path, sizeof path, "%s/out", dir);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    fflush(NULL);
    child = fork();
    if (!child) {
        if (chdir(dir) || !freopen(path, "w", stdout) || dup2(1, 2) < 0)
            _exit(99);
        exit(stories_main(argc, argv));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const char *printed(const char *dir)
{
    static char text[4096];
    char        path[512];
    FILE       *f;

    snprintf(path, sizeof path, "%s/out", dir);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void put(const char *dir, const char *name, const char *text)
{
    char  path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && !fclose(f));
}

START_TEST(the_verb_accepts_what_it_wrote)
{
    const char *dir = rig_tmp();

    ck_assert_int_eq(run(dir, "--bytes 200k --seed 7 --out a.txt"), 0);
    ck_assert_ptr_nonnull(strstr(printed(dir), "bits per byte"));
    ck_assert_int_eq(run(dir, "--check a.txt"), 0);
    ck_assert_msg(strstr(printed(dir), "0 break the form, 0 contradict a fact"), "%s",
                  printed(dir));
    ck_assert_int_eq(run(dir, "--check a.txt --seed 3"), 0);
}
END_TEST

START_TEST(the_verb_says_which_texts_break)
{
    const char *dir = rig_tmp();
    char        all[4 * sizeof kite], *lie = edited("of raisins", "of plums");

    snprintf(all, sizeof all, "%s\n<|endoftext|>\n%s\n<|endoftext|>\nNonsense.\n",
             kite, lie);
    put(dir, "a.txt", all);
    ck_assert_int_eq(run(dir, "--check a.txt"), FAIL_INPUT);
    ck_assert_msg(strstr(printed(dir), "a.txt: text 2 breaks at byte") &&
                  strstr(printed(dir), "(fact): Leo loves raisins, not plums") &&
                  strstr(printed(dir), "a.txt: text 3 breaks at byte") &&
                  strstr(printed(dir), "1 of 3 texts are stories; 1 breaks the form, 1 "
                         "contradicts a fact; 0.") &&
                  strstr(printed(dir), "; of 22 names 100 % are known from before\n"),
                  "%s", printed(dir));
    put(dir, "b.txt", "Nonsense.\n");
    ck_assert_int_eq(run(dir, "--check b.txt"), FAIL_INPUT);
    ck_assert_msg(strstr(printed(dir), "0 contradict a fact\n"), "%s", printed(dir));
    free(lie);
}
END_TEST

static const struct { const char *words; int code; const char *says; } wrong_turns[] = {
    {"--check missing.txt", 3, "missing.txt"},
    {"--check empty.txt", 3, "empty.txt"},
    {"--bytes 0", 2, "--bytes"},
    {"--bytes much", 2, "--bytes"},
    {"--sed 4", 2, "did you mean '--seed'"},
    {"here.txt", 2, "--check here.txt"},
    {"--check here.txt --bytes 5k", 2, "--check goes without"},
    {"--bytes 5k --out here.txt", 5, "here.txt: exists already"},
    {"--bytes 5k --out no/such/place.txt", 5, "no/such/place.txt"},
};

START_TEST(a_wrong_turn_gets_a_clear_line)
{
    const char *dir = rig_tmp();

    put(dir, "here.txt", kite);
    put(dir, "empty.txt", "");
    int code = run(dir, wrong_turns[_i].words);

    ck_assert_msg(code == wrong_turns[_i].code &&
                  strstr(printed(dir), wrong_turns[_i].says),
                  "%s: exit %d, %s", wrong_turns[_i].words, code, printed(dir));
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

static Suite *suite(void)
{
    Suite *s = suite_create("stories");
    TCase *tc = tcase_create("stories");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_rules_are_well_formed);
    tcase_add_test(tc, every_choice_always_has_an_alternative);
    tcase_add_loop_test(tc, no_word_begins_with_another_of_its_class, 0, N_CLASSES);
    tcase_add_loop_test(tc, reading_gives_the_bits_of_writing, 1, 4);
    tcase_add_test(tc, a_story_depends_on_seed_and_index_alone);
    tcase_add_test(tc, a_story_that_does_not_fit_is_not_written);
    tcase_add_test(tc, ten_thousand_stories_are_all_different);
    tcase_add_test(tc, stories_are_tidy_english);
    tcase_add_loop_test(tc, frequencies_are_as_the_bits_say, 0, COUNT(rival));
    tcase_add_loop_test(tc, a_broken_story_is_refused_with_its_reason, 0, COUNT(broken));
    tcase_add_test(tc, a_story_cut_anywhere_is_refused);
    tcase_add_test(tc, a_story_knows_its_names_from_before);
    tcase_add_test(tc, names_that_nobody_introduced_are_counted);
    tcase_add_test(tc, any_bytes_are_refused_without_harm);
    tcase_add_test(tc, the_verb_accepts_what_it_wrote);
    tcase_add_test(tc, the_verb_says_which_texts_break);
    tcase_add_loop_test(tc, a_wrong_turn_gets_a_clear_line, 0, COUNT(wrong_turns));
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
