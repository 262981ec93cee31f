/* Claims under a crowd: processes that take one piece of work in turns, and some that die
 * with it. */
#include "tests/support/rig.h"

#include "data/base/claim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CROWD = 4, TURNS = 300 };

static char dir[32], work[64], held[64];

/* Claim the work, and be alone with it: exit 1 when another is there. */
static struct claim *take(void)
{
    struct claim *mine = NULL;
    struct why    why;
    int           fd;

    while (!mine)
        if (claim_try(work, &mine, &why))
            _exit(2);
    fd = open(held, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0)
        _exit(1);
    close(fd);
    return mine;
}

static void give(struct claim *mine)
{
    unlink(held);
    claim_release(mine);
}

static void take_turns(void)
{
    for (int i = 0; i < TURNS; i++)
        give(take());
    _exit(0);
}

static pid_t begin(void (*child)(void))
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (!pid)
        child();
    return pid;
}

static void open_work(void)
{
    snprintf(dir, sizeof dir, "/tmp/weft-claim-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(work, sizeof work, "%s/work", dir);
    snprintf(held, sizeof held, "%s/held", dir);
}

static void close_work(void)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* One that looks at a claim while it is released must not take over the next one's. */
START_TEST(no_two_hold_what_changes_hands)
{
    pid_t pid[CROWD];
    int   status;

    open_work();
    for (int i = 0; i < CROWD; i++)
        pid[i] = begin(take_turns);
    for (int i = 0; i < CROWD; i++) {
        ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                      "process %d: status %x", i, status);
    }
    close_work();
}
END_TEST

static void die_with_it(void)
{
    take();
    unlink(held);
    raise(SIGKILL);
}

START_TEST(who_dies_is_followed_at_once)
{
    int status;

    open_work();
    for (int i = 0; i < 5; i++) {
        pid_t pid = begin(die_with_it);

        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status));
    }
    give(take());
    give(take());
    close_work();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("claim");
    TCase *tc = tcase_create("crowd");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, no_two_hold_what_changes_hands);
    tcase_add_test(tc, who_dies_is_followed_at_once);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
