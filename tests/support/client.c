#include "tests/support/client.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int client_connect(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval     most = {.tv_sec = CLIENT_PATIENCE};
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

void client_send(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

/* With a NUL after it; malloc'ed. */
static char *read_all(int fd, size_t *len)
{
    size_t cap = 1 << 14;
    char  *all = malloc(cap);

    *len = 0;
    for (ssize_t n; (n = recv(fd, all + *len, cap - *len - 1, 0)) > 0;) {
        *len += (size_t)n;
        if (cap - *len < 1 << 13)
            all = realloc(all, cap *= 2);
    }
    all[*len] = 0;
    return all;
}

/* Put a chunked body together, in place. */
static void unchunk(struct got *g)
{
    char *from = g->body, *to = g->body, *end = g->body + g->len, *line;

    for (size_t n; from < end && (n = strtoul(from, &line, 16)) > 0;) {
        from = line + 2;
        n = (size_t)(end - from) < n ? (size_t)(end - from) : n;
        memmove(to, from, n);
        to += n;
        from += n + 2;
    }
    *to = 0;
    g->len = (size_t)(to - g->body);
}

struct got client_receive(int fd)
{
    struct got g = {0};
    size_t     len;
    char      *all = read_all(fd, &len), *cut = strstr(all, "\r\n\r\n");

    if (cut && sscanf(all, "HTTP/1.%*d %d", &g.status) == 1) {
        snprintf(g.head, sizeof g.head, "%.*s", (int)(cut - all), all);
        g.len = len - (size_t)(cut + 4 - all);
        g.body = malloc(g.len + 1);
        memcpy(g.body, cut + 4, g.len);
        g.body[g.len] = 0;
        if (strcasestr(g.head, "Transfer-Encoding: chunked"))
            unchunk(&g);
    }
    free(all);
    return g;
}

struct got client_ask(int port, const char *method, const char *url, const char *headers,
                      const char *body)
{
    int        fd = client_connect(port);
    char      *text;
    int        n = asprintf(&text,
                            "%s %s HTTP/1.1\r\nHost: localhost:%d\r\n"
                            "Connection: close\r\nContent-Length: %zu\r\n%s\r\n%s",
                            method, url, port, strlen(body), headers, body);
    struct got g = {0};

    if (fd >= 0) {
        client_send(fd, text, (size_t)n);
        g = client_receive(fd);
        close(fd);
    }
    free(text);
    return g;
}

json_t *client_post(int port, const char *url, int status, const char *body)
{
    struct got   g = client_ask(port, "POST", url, "Content-Type: application/json\r\n",
                                body);
    json_error_t bad;
    json_t      *j = g.body ? json_loads(g.body, JSON_ALLOW_NUL, &bad) : NULL;

    ck_assert_msg(g.status == status, "%s %.300s: %d, not %d: %.500s", url, body,
                  g.status, status, g.body ? g.body : "");
    ck_assert_msg(j != NULL, "%s %.300s: %.500s", url, body, g.body);
    got_free(&g);
    return j;
}

void got_free(struct got *g)
{
    free(g->body);
    *g = (struct got){0};
}
