/* Claims under a crowd: processes that take one piece of work in turns, and some that die
 * with it. */
#include "tests/support/rig.h"

#include "data/base/claim.h"
#include "data/base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CROWD = 4, TURNS = 300 };

static char dir[32], work[64], held[64];

static time_t later;            // seconds that seem to have passed

/* This stands before libc's own in this program. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int bad = (int)syscall(SYS_clock_gettime, clock, now);

    now->tv_sec += clock == CLOCK_MONOTONIC ? later : 0;
    return bad;
}

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
    int status, open;

    open_work();
    for (int i = 0; i < 5; i++) {
        pid_t pid = begin(die_with_it);

        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status));
    }
    open = rig_open_files();
    give(take());
    give(take());
    ck_assert_int_eq(rig_open_files(), open);
    close_work();
}
END_TEST

/* ---- one after the other ---- */

/* What claim_try gives. */
static struct claim *attempt(void)
{
    struct claim *mine;
    struct why    why;

    ck_assert_msg(!claim_try(work, &mine, &why), "%s", why.line);
    return mine;
}

static bool claimed(int number)
{
    char file[80];

    snprintf(file, sizeof file, "%s.claim-%d", work, number);
    return access(file, F_OK) == 0;
}

static void put_claim(int number, const char *text)
{
    char  file[80];
    FILE *f;

    snprintf(file, sizeof file, "%s.claim-%d", work, number);
    ck_assert((f = fopen(file, "w")) && fputs(text, f) >= 0 && !fclose(f));
}

START_TEST(a_claim_is_anothers_when_it_is_let_go)
{
    struct claim *mine, *none;
    struct why    why;
    int           status;

    open_work();
    mine = attempt();
    ck_assert(mine && !attempt() && claimed(0));
    interrupted = 1;
    ck_assert_int_eq(claim_wait(work, &none, &why), FAIL_INTERRUPTED);
    interrupted = 0;
    claim_release(mine);
    ck_assert(!claimed(0));                         // the first leaves nothing
    ck_assert_int_eq(waitpid(begin(die_with_it), &status, 0) > 0, 1);
    ck_assert(claimed(0) && (mine = attempt()) && claimed(1) && !attempt());
    claim_release(mine);
    ck_assert(claimed(1));                          // or the dead one's would count
    ck_assert(!claim_wait(work, &mine, &why) && mine && claimed(2));
    claim_finish(mine);
    ck_assert(!claimed(0) && !claimed(1) && !claimed(2));
    snprintf(work, sizeof work, "%s/none/work", dir);
    ck_assert_int_eq(claim_try(work, &mine, &why), FAIL_WRITE);
    ck_assert_ptr_nonnull(strstr(why.line, "cannot claim: No such file"));
    claim_release(NULL), claim_finish(NULL);
    close_work();
}
END_TEST

START_TEST(another_machines_claim_is_taken_when_nobody_touches_it)
{
    struct claim *mine;

    open_work();
    put_claim(0, "another machine\n");
    ck_assert(!attempt());
    later = CLAIM_STALE - 5;
    ck_assert(!attempt());
    put_claim(0, "another machine\n");              // its owner lives
    later = CLAIM_STALE + 5;
    ck_assert(!attempt());
    later = 2 * CLAIM_STALE + 10;
    ck_assert((mine = attempt()) && claimed(1));
    claim_finish(mine);
    put_claim(0, "");                               // cut short when it was written
    ck_assert(!attempt());
    put_claim(0, "released\n");
    ck_assert((mine = attempt()) && claimed(1));
    claim_finish(mine);
    later = 0;
    close_work();
}
END_TEST

static void note_lost(const char *path)
{
    if (!strcmp(path, work))
        put_claim(9, "told\n");
}

/* It was asleep, and another took over: nothing of that one's may be touched. */
static void lose_it(void)
{
    struct claim *mine = take();

    put_claim(1, "another machine\n");
    claim_lost = note_lost;
    claim_finish(mine);
    _exit(0);
}

START_TEST(who_has_lost_its_claim_ends_and_removes_nothing)
{
    int status;

    open_work();
    ck_assert_int_eq(waitpid(begin(lose_it), &status, 0) > 0, 1);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == FAIL_WRITE);
    ck_assert(claimed(0) && claimed(1) && claimed(9));
    close_work();
}
END_TEST

/* Dies with the claim; before, one more was about to become another's. */
static void die_in_two_claims(void)
{
    char file[96];
    int  fd;

    take();
    unlink(held);
    snprintf(file, sizeof file, "%s.claim-1.77-0.new", work);
    if ((fd = open(file, O_CREAT | O_WRONLY, 0600)) < 0)
        _exit(1);
    close(fd);
    raise(SIGKILL);
}

START_TEST(what_the_dead_leave_is_swept_and_the_livings_stays)
{
    int           status;
    struct claim *mine;
    struct why    why;
    char          file[96];

    open_work();
    ck_assert_int_eq(waitpid(begin(die_in_two_claims), &status, 0) > 0, 1);
    ck_assert(WIFSIGNALED(status) && claimed(0));
    claim_sweep(dir);
    snprintf(file, sizeof file, "%s.claim-1.77-0.new", work);
    ck_assert(!claimed(0) && !claimed(1) && access(file, F_OK));
    ck_assert(!claim_try(work, &mine, &why) && mine);
    claim_sweep(dir);
    ck_assert(claimed(0) && !claimed(1));
    claim_finish(mine);
    ck_assert(!claimed(0));
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

    tc = tcase_create("turns");
    tcase_add_test(tc, a_claim_is_anothers_when_it_is_let_go);
    tcase_add_test(tc, another_machines_claim_is_taken_when_nobody_touches_it);
    tcase_add_test(tc, what_the_dead_leave_is_swept_and_the_livings_stays);
    tcase_add_test(tc, who_has_lost_its_claim_ends_and_removes_nothing);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
