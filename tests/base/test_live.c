/* The live line, on a terminal of our own and on a pipe. Each test has its own process,
 * and its own stderr. */
#include "tests/support/rig.h"

#include "data/base/live.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int kept, seen = -1; // the old stderr; where what goes to the new appears

static void take_stderr(int to, int from)
{
    kept = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(to, STDERR_FILENO), 0);
    close(to);
    seen = from;
    fcntl(seen, F_SETFL, O_NONBLOCK);
}

static void on_terminal(int columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int            master = posix_openpt(O_RDWR | O_NOCTTY), slave;

    ck_assert_int_ge(master, 0);
    ck_assert(!grantpt(master) && !unlockpt(master));
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(slave, 0);
    ck_assert(!ioctl(slave, TIOCSWINSZ, &size));
    setenv("TERM", "xterm", 1);
    take_stderr(slave, master);
}

static void on_pipe(void)
{
    int ends[2];

    ck_assert(!pipe(ends));
    take_stderr(ends[1], ends[0]);
}

/* What stderr got since the last call, which must be this. A terminal adds \r to \n. */
static void expect(const char *want)
{
    char    got[4096];
    ssize_t n;
    size_t  len = 0;

    while ((n = read(seen, got + len, sizeof got - 1 - len)) > 0)
        len += (size_t)n;
    got[len] = 0;
    dup2(kept, STDERR_FILENO);
    ck_assert_str_eq(got, want);
}

START_TEST(a_terminal_sees_one_line_rewritten_and_cut_at_its_width)
{
    on_terminal(12);
    struct live l = live_open(0);

    live_show(&l, "%d of %d", 1, 10);
    live_show(&l, "longer than the terminal");
    live_say(&l, "done");
    live_clear(&l);
    expect("\r1 of 10\033[K\rlonger than\033[K\r\033[Kdone\r\n");
}
END_TEST

START_TEST(a_line_that_stays_breaks_at_words_on_a_terminal_only)
{
    if (_i)
        on_terminal(12);
    else
        on_pipe();
    struct live l = live_open(0);

    live_say(&l, "twelve \303\244 cols and_much_longer end of it all");
    expect(_i ? "twelve \303\244\r\ncols\r\nand_much_longer\r\nend of it\r\nall\r\n"
              : "twelve \303\244 cols and_much_longer end of it all\n");
}
END_TEST

/* What is in the environment, and what a terminal gets. */
static const struct { const char *name, *value, *want; } titles[] = {
    {"NO_COLOR", "", "\033[1mTitle\033[0m\r\n"},
    {"NO_COLOR", "1", "Title\r\n"},
    {"TERM", "dumb", "Title\r\n"},
};

START_TEST(a_title_is_bold_unless_somebody_says_no)
{
    unsetenv("NO_COLOR");
    on_terminal(80);
    setenv(titles[_i].name, titles[_i].value, 1);
    struct live l = live_open(0);

    live_title(&l, "Title");
    expect(titles[_i].want);
}
END_TEST

START_TEST(a_pipe_gets_plain_lines)
{
    on_pipe();
    struct live l = live_open(10);

    live_show(&l, "%d of %d", 1, 10);
    live_say(&l, "done");
    live_clear(&l);
    expect("1 of 10\ndone\n");
}
END_TEST

START_TEST(a_pipe_gets_nothing_from_who_wants_a_terminal)
{
    on_pipe();
    struct live l = live_open(0);

    ck_assert(!live_due(&l));
    live_show(&l, "1 of 10");
    live_clear(&l);
    expect("");
}
END_TEST

START_TEST(a_line_is_due_after_its_time)
{
    on_pipe();
    struct live slow = live_open(1000), fast = live_open(0.001);

    usleep(5000);
    ck_assert(!live_due(&slow));
    ck_assert(live_due(&fast));
    live_show(&fast, "x");
    ck_assert(!live_due(&slow));
    expect("x\n");
}
END_TEST

START_TEST(phases_are_a_bar_on_a_terminal_and_names_on_a_pipe)
{
    if (_i)
        on_terminal(80);
    else
        on_pipe();
    struct live l = live_open(0);

    live_phase(&l, "reading", 0);
    live_phase(&l, "reading", 0.001); // too soon
    live_phase(&l, "encoding", 0.5);
    live_clear(&l);
    expect(
        _i ? "\rreading ...\033[K\rencoding  [==========          ]  50 %\033[K\r\033[K"
           : "reading\nencoding\n");
}
END_TEST

START_TEST(a_closed_stderr_stops_nobody)
{
    struct live l = live_open(1);

    kept = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    live_show(&l, "x");
    live_say(&l, "y");
    dup2(kept, STDERR_FILENO);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("live");
    TCase *tc = tcase_create("live");

    tcase_add_test(tc, a_terminal_sees_one_line_rewritten_and_cut_at_its_width);
    tcase_add_loop_test(tc, a_line_that_stays_breaks_at_words_on_a_terminal_only, 0, 2);
    tcase_add_loop_test(tc, a_title_is_bold_unless_somebody_says_no, 0,
                        (int)(sizeof titles / sizeof *titles));
    tcase_add_test(tc, a_pipe_gets_plain_lines);
    tcase_add_test(tc, a_pipe_gets_nothing_from_who_wants_a_terminal);
    tcase_add_test(tc, a_line_is_due_after_its_time);
    tcase_add_loop_test(tc, phases_are_a_bar_on_a_terminal_and_names_on_a_pipe, 0, 2);
    tcase_add_test(tc, a_closed_stderr_stops_nobody);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
