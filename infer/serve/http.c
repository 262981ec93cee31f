#include "infer/serve/http.h"

#include "data/base/clock.h"
#include "data/base/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    REQUESTS = 64,              // at once; further ones are told to come again
    CONNECTIONS = 96,
    CONNECTIONS_EACH = 32,      // of one address that is not this machine
    IDLE_SECONDS = 30,
    REQUEST_SECONDS = 60,       // for a request to arrive
    HEADER_BYTES = 32 << 10,
};

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* A connection, and since when it has been about to send a request. */
struct peer {
    struct peer *next, **at;
    int          fd;
    double       since;
    bool         asking;        // a request is there
};

/* ---- answering ---- */

static enum MHD_Result reply(struct server *s, struct call *c, int status,
                             const char *type, struct MHD_Response *r)
{
    enum MHD_Result sent;

    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Content-Security-Policy", policy);
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    if (status == 503)
        MHD_add_response_header(r, "Retry-After", "1");
    if (status == 401)
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (status == 405)
        MHD_add_response_header(r, "Allow", c->refusal.param);
    if (status == 413 || atomic_load(&s->stopping))
        MHD_add_response_header(r, "Connection", "close");
    sent = MHD_queue_response(c->connection, (unsigned)status, r);
    MHD_destroy_response(r);
    atomic_fetch_add(&s->answers[status / 100], 1);
    return sent;
}

enum MHD_Result reply_text(struct server *s, struct call *c, int status, const char *type,
                           const char *text, size_t len)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(len, (void *)text, MHD_RESPMEM_MUST_COPY);

    return reply(s, c, status, type, r);
}

enum MHD_Result reply_json(struct server *s, struct call *c, int status, json_t *j)
{
    static const char no_memory[] = "{\"error\": {\"message\": \"not enough memory\"}}";
    char *text = json_to_text(j, JSON_COMPACT | JSON_REAL_PRECISION(9));
    struct MHD_Response *r;

    json_decref(j);
    if (!text)
        return reply_text(s, c, 503, "application/json", no_memory, sizeof no_memory - 1);
    r = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    return reply(s, c, status, "application/json", r);
}

static const char *error_type(int status)
{
    return status == 401                    ? "authentication_error"
           : status == 404                  ? "not_found_error"
           : status >= 500 || status == 429 ? "server_error"
                                            : "invalid_request_error";
}

enum MHD_Result reply_refusal(struct server *s, struct call *c, const struct refusal *r)
{
    json_t *e = json_pack("{s:o, s:s, s:s?, s:s?}", "message",
                          json_from_bytes(r->message, strlen(r->message)), "type",
                          error_type(r->status), "param",
                          r->status == 405 ? NULL : r->param, "code", r->code);

    return reply_json(s, c, r->status, json_pack("{s:o}", "error", e));
}

enum MHD_Result reply_stream(struct server *s, struct call *c,
                             MHD_ContentReaderCallback read, void *user,
                             MHD_ContentReaderFreeCallback end)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1 << 14, read, user, end);

    if (!r)
        end(user);
    return reply(s, c, 200, "text/event-stream; charset=utf-8", r);
}

bool call_waits(const struct call *c)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    char byte;

    return !i || recv(i->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

/* ---- who may ask ---- */

/* The host of "localhost:8080", "[::1]:80", without its port. */
static void host_only(const char *header, char *host, size_t cap)
{
    const char *from = header + (*header == '[');

    snprintf(host, cap, "%.*s", (int)strcspn(from, *header == '[' ? "]" : ":"), from);
}

/* A page from elsewhere whose name was made to point here (DNS rebinding) sends its own
 * name. This machine's names are fine, and what cannot be such a name: an address. */
static bool host_is_ours(const struct server *s, const char *header)
{
    char          host[256], own[256] = "";
    unsigned char address[16];

    if (s->key[0])                              // a stranger's page has no key
        return true;
    if (!header)
        return false;
    host_only(header, host, sizeof host);
    if (!strcasecmp(host, "localhost") || !strcmp(host, "127.0.0.1") ||
        !strcmp(host, "::1") || !strcasecmp(host, s->o.host))
        return true;
    if (s->local)
        return false;
    gethostname(own, sizeof own - 1);
    return inet_pton(AF_INET, host, address) == 1 ||
           inet_pton(AF_INET6, host, address) == 1 || !strcasecmp(host, own);
}

/* In a time that does not tell how much of it is right. */
static bool same_key(const char *a, const char *b)
{
    size_t        n = strlen(b), m = strlen(a);
    unsigned char differ = n != m;

    for (size_t i = 0; i < n; i++)
        differ |= (unsigned char)(b[i] ^ (i < m ? a[i] : 0));
    return !differ;
}

static bool has_key(const struct server *s, struct MHD_Connection *c)
{
    const char *bearer = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
    const char *key = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "key");

    if (!s->key[0])
        return true;
    if (bearer && !strncasecmp(bearer, "Bearer ", 7))
        key = bearer + 7;
    return key && same_key(key, s->key);
}

static bool is_json(struct MHD_Connection *c)
{
    const char *type = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Type");

    return type && !strncasecmp(type, "application/json", 16) &&
           (!type[16] || strchr("; \t", type[16]));
}

static size_t content_length(struct MHD_Connection *c)
{
    const char *n = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");

    return n ? strtoull(n, NULL, 10) : 0;
}

/* All that can be refused before the body is there. */
static void admit(struct server *s, struct call *c, const char *method, const char *url)
{
    struct MHD_Connection *m = c->connection;
    struct refusal        *no = &c->refusal;
    const char            *allowed;
    bool                   post = !strcmp(method, "POST");

    c->route = route_find(method, url, &allowed);
    if (!host_is_ours(s, MHD_lookup_connection_value(m, MHD_HEADER_KIND, "Host")))
        refuse(no, 403, NULL, "the Host header names another server than this");
    else if (!c->route && allowed)
        refuse(no, 405, allowed, "%s does not take %s", url, method);
    else if (!c->route)
        refuse(no, 404, NULL, "there is nothing at this address");
    else if (!c->route->open && !has_key(s, m))
        refuse(no, 401, NULL, "the key is missing or wrong: Authorization: Bearer KEY");
    else if (post && !is_json(m))
        refuse(no, 415, NULL, "the request must have Content-Type: application/json");
    else if (content_length(m) > ASK_BODY)
        refuse(no, 413, NULL, "a request may have %d bytes", ASK_BODY);
    else if (atomic_load(&s->stopping))
        refuse(no, 503, NULL, "the server is closing");
    else if (!c->route->open && atomic_load(&s->open) > REQUESTS)
        refuse(no, 503, NULL, "too many requests at once");
}

/* ---- requests ---- */

static struct peer *peer_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return i ? i->socket_context : NULL;
}

static void set_asking(struct server *s, struct MHD_Connection *c, bool asking)
{
    struct peer *p = peer_of(c);

    if (!p)
        return;
    pthread_mutex_lock(&s->lock);
    p->asking = asking;
    p->since = wall_seconds();
    pthread_mutex_unlock(&s->lock);
}

/* More of the body. What is too long is read to its end, within reason, so that the
 * client gets to read the answer. */
static enum MHD_Result take_body(struct call *c, const char *bytes, size_t n)
{
    if (wall_seconds() - c->began > REQUEST_SECONDS || c->len + n > 4 * ASK_BODY)
        return MHD_NO;
    if (c->refusal.status || c->len + n > ASK_BODY) {
        c->len += n;
        if (!c->refusal.status)
            refuse(&c->refusal, 413, NULL, "a request may have %d bytes", ASK_BODY);
        return MHD_YES;
    }
    if (c->len + n + 1 > c->cap) {
        size_t cap = 2 * (c->len + n + 1);
        char  *body = realloc(c->body, cap);

        if (!body)
            return MHD_NO;
        c->body = body;
        c->cap = cap;
    }
    memcpy(c->body + c->len, bytes, n);
    c->len += n;
    return MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection,
                                  const char *url, const char *method,
                                  const char *version, const char *bytes, size_t *n,
                                  void **state)
{
    struct server *s = user;
    struct call   *c = *state;

    (void)version;
    if (!c) {
        *state = c = calloc(1, sizeof *c);
        if (!c)
            return MHD_NO;
        c->connection = connection;
        c->began = wall_seconds();
        snprintf(c->url, sizeof c->url, "%s", url);
        atomic_fetch_add(&s->open, 1);
        set_asking(s, connection, true);
        admit(s, c, method, url);
        if (c->refusal.status == 413)
            return reply_refusal(s, c, &c->refusal);
        return MHD_YES;
    }
    if (*n) {
        size_t len = *n;

        *n = 0;
        return take_body(c, bytes, len);
    }
    return c->refusal.status ? reply_refusal(s, c, &c->refusal) : c->route->answer(s, c);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct server *s = user;
    struct call   *c = *state;

    (void)why;
    if (!c)
        return;
    set_asking(s, connection, false);
    free(c->body);
    free(c);
    *state = NULL;
    atomic_fetch_sub(&s->open, 1);
}

/* ---- connections ---- */

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *s = user;
    struct peer   *p = *context;

    pthread_mutex_lock(&s->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED && (p = calloc(1, sizeof *p))) {
        p->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
                    ->connect_fd;
        p->since = wall_seconds();
        p->next = s->peers;
        p->at = &s->peers;
        if (p->next)
            p->next->at = &p->next;
        s->peers = p;
        *context = p;
    } else if (what == MHD_CONNECTION_NOTIFY_CLOSED && p) {
        *p->at = p->next;
        if (p->next)
            p->next->at = p->at;
        free(p);
        *context = NULL;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Shut out who takes forever to send the head of a request: byte by byte, so that the
 * connection is never idle. */
static void shut_slow(struct server *s)
{
    double now = wall_seconds();

    pthread_mutex_lock(&s->lock);
    for (struct peer *p = s->peers; p; p = p->next)
        if (!p->asking && now - p->since > REQUEST_SECONDS)
            shutdown(p->fd, SHUT_RDWR);
    pthread_mutex_unlock(&s->lock);
}

static void *guard(void *user)
{
    const struct timespec moment = {.tv_nsec = 250000000};
    struct server        *s = user;

    while (!atomic_load(&s->hurry)) {
        shut_slow(s);
        nanosleep(&moment, NULL);
    }
    return NULL;
}

/* ---- starting and stopping ---- */

void serve_defaults(struct serve_options *o)
{
    *o = (struct serve_options){
        .host = "127.0.0.1",
        .port = 8080,
        .slots = SESSION_ROWS,
        .most_waiting = 256,
        .cache = (size_t)256 << 20,
        .chat_template = "{content}\n",
        .beat = 10,
    };
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* The first line of the file. */
static enum fail read_key(struct server *s, struct why *why)
{
    char     *text;
    size_t    len;
    enum fail err = file_read(s->o.key_file, 1 << 16, &text, &len, why);

    if (err)
        return err;
    text[strcspn(text, "\r\n")] = 0;
    if (strlen(text) < 8 || strlen(text) >= sizeof s->key)
        err = fail(why, FAIL_INPUT, "%s: its first line must be a key of 8 to %zu bytes",
                   s->o.key_file, sizeof s->key - 1);
    else
        strcpy(s->key, text);
    free(text);
    return err;
}

static enum fail find_address(struct server *s, struct sockaddr_storage *to,
                              socklen_t *len, struct why *why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *a;
    char            port[16];
    int             bad;

    snprintf(port, sizeof port, "%d", s->o.port);
    if ((bad = getaddrinfo(s->o.host, port, &hints, &a)))
        return fail(why, FAIL_USAGE, "--host %s: %s", s->o.host, gai_strerror(bad));
    memcpy(to, a->ai_addr, a->ai_addrlen);
    *len = a->ai_addrlen;
    s->local = is_loopback(a->ai_addr);
    freeaddrinfo(a);
    if (!s->local && !s->key[0] && !s->o.insecure)
        return fail(why, FAIL_USAGE,
                    "--host %s: other machines could use it; give --api-key-file FILE, "
                    "or --insecure to let everybody",
                    s->o.host);
    return 0;
}

static void set_port(struct sockaddr_storage *a, int port)
{
    if (a->ss_family == AF_INET)
        ((struct sockaddr_in *)a)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)a)->sin6_port = htons((uint16_t)port);
}

/* A socket that listens; -1: errno. */
static int listen_at(const struct sockaddr_storage *a, socklen_t len)
{
    int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)a, len) == 0 && listen(fd, 128) == 0)
        return fd;
    int bad = errno;

    close(fd);
    errno = bad;
    return -1;
}

/* The port, or the next that is free. */
static enum fail open_socket(struct server *s, int *fd, struct why *why)
{
    struct sockaddr_storage a;
    socklen_t               len;
    enum fail               err = find_address(s, &a, &len, why);

    for (int i = 0; !err && i < (s->o.fixed || !s->o.port ? 1 : 100); i++) {
        set_port(&a, s->o.port ? s->o.port + i : 0);
        *fd = listen_at(&a, len);
        if (*fd >= 0 || errno != EADDRINUSE)
            break;
    }
    if (!err && *fd < 0)
        err = fail(why, FAIL_WRITE, "%s port %d: %s", s->o.host, s->o.port,
                   strerror(errno));
    if (err)
        return err;
    getsockname(*fd, (struct sockaddr *)&a, &len);
    s->port = ntohs(a.ss_family == AF_INET ? ((struct sockaddr_in *)&a)->sin_port
                                           : ((struct sockaddr_in6 *)&a)->sin6_port);
    snprintf(s->url, sizeof s->url, strchr(s->o.host, ':') ? "http://[%.80s]:%d/"
                                                           : "http://%.80s:%d/",
             s->o.host, s->port);
    return 0;
}

static enum fail start_daemon(struct server *s, int fd, struct why *why)
{
    const unsigned flags = MHD_USE_THREAD_PER_CONNECTION |
                           MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC;

    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, s->local ? 0u : (unsigned)CONNECTIONS_EACH,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, s, MHD_OPTION_END);
    if (s->daemon)
        return 0;
    close(fd);
    return fail(why, FAIL_MEMORY, "cannot start the server's threads: %s",
                strerror(errno));
}

static enum fail start_parts(struct server *s, struct why *why)
{
    struct scheduler_options work = {s->o.threads, s->o.most_waiting};
    struct served_options    what = {s->o.path, s->o.slots, s->o.cache};
    int                      fd = -1;
    enum fail                err = s->o.key_file ? read_key(s, why) : 0;

    if (!err)
        err = open_socket(s, &fd, why);
    if (!err)
        err = served_open(&s->served, &what, s->o.training, why);
    if (!err)
        err = scheduler_open(&s->scheduler, &work, why);
    if (!err && pthread_create(&s->guard, NULL, guard, s))
        err = fail(why, FAIL_MEMORY, "cannot start the server's threads");
    else if (!err)
        s->guarded = true;
    if (!err)
        return start_daemon(s, fd, why);
    if (fd >= 0)
        close(fd);
    return err;
}

enum fail serve_start(struct server **to, const struct serve_options *o, struct why *why)
{
    struct server *s = calloc(1, sizeof *s);
    enum fail      err;

    *to = NULL;
    if (!s)
        return fail(why, FAIL_MEMORY, "no memory for a server");
    s->o = *o;
    s->began = wall_seconds();
    pthread_mutex_init(&s->lock, NULL);
    err = start_parts(s, why);
    if (err)
        serve_stop(s, 0);
    else
        *to = s;
    return err;
}

const char *serve_url(const struct server *s)
{
    return s->url;
}

int serve_port(const struct server *s)
{
    return s->port;
}

bool serve_refused(struct server *s, struct why *why)
{
    return served_refused(s->served, why);
}

void serve_stop(struct server *s, double seconds)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    int                   listening = -1;

    if (!s)
        return;
    atomic_store(&s->stopping, true);
    if (s->daemon)
        listening = MHD_quiesce_daemon(s->daemon);
    if (s->scheduler)
        scheduler_drain(s->scheduler);
    for (double end = wall_seconds() + seconds;
         atomic_load(&s->open) > 0 && wall_seconds() < end;)
        nanosleep(&moment, NULL);
    atomic_store(&s->hurry, true);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (listening >= 0)
        close(listening);
    if (s->guarded)
        pthread_join(s->guard, NULL);
    scheduler_close(s->scheduler);
    served_close(s->served);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
