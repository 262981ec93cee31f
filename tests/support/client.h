/* A client of the server's, over a plain socket. */
#ifndef WEFT_CLIENT_H
#define WEFT_CLIENT_H

#include <jansson.h>
#include <stddef.h>

/* Seconds after which nothing more is expected: many, since a machine may be busy. */
enum { CLIENT_PATIENCE = 300 };

struct got {
    int    status;              // of HTTP; 0: the connection ended without an answer
    char   head[4096];
    char  *body;                // (len) with a NUL after it; free with got_free
    size_t len;
};

int  client_connect(int port);                          // a socket, or -1
void client_send(int fd, const char *bytes, size_t len);

/* Everything until the server closes; the body is put together from its chunks. */
struct got client_receive(int fd);

/* One request on a connection of its own. headers: lines with \r\n, or "". */
struct got client_ask(int port, const char *method, const char *url, const char *headers,
                      const char *body);

/* A POST of JSON, which is answered with this status and JSON; the result is the
 * caller's. */
json_t *client_post(int port, const char *url, int status, const char *body);

void got_free(struct got *g);

#endif
