#include "data/base/live.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool term_live(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

int term_width(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

bool term_color(void)
{
    const char *no = getenv("NO_COLOR");

    return term_live() && !(no && *no);
}
