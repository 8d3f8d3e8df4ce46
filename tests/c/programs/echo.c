/* An echo server over TCP and its clients in one program: one loop of poll serves them all. Then what the calls answer to
 * wrong use, options, and addresses as text. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS 3
#define LINES 4

static int failed(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

/* A socket that listens on a port of the system's choice, which `address` gets. */
static int listening(struct sockaddr_in *address) {
    int one = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t bytes = sizeof *address;
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (server < 0 || setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(server, (struct sockaddr *)address, sizeof *address) != 0 || listen(server, 8) != 0 ||
        getsockname(server, (struct sockaddr *)address, &bytes) != 0) {
        return -1;
    }
    return server;
}

static int connected(const struct sockaddr_in *address) {
    int one = 1, client = socket(AF_INET, SOCK_STREAM, 0);
    if (client < 0 || connect(client, (const struct sockaddr *)address, sizeof *address) != 0 ||
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        return -1;
    }
    return client;
}

/* Sends all, however often that takes. */
static int send_all(int to, const char *from, size_t bytes) {
    while (bytes > 0) {
        ssize_t sent = send(to, from, bytes, MSG_NOSIGNAL);
        if (sent < 0) {
            return -1;
        }
        from += sent;
        bytes -= (size_t)sent;
    }
    return 0;
}

struct client {
    int socket;
    int lines;
    size_t filled;
    char heard[256];
};

/* The next line of a client, or its end. */
static int speak(struct client *client, int number) {
    char line[64];
    if (client->lines == LINES) {
        return shutdown(client->socket, SHUT_WR);
    }
    snprintf(line, sizeof line, "client %d, line %d\n", number, ++client->lines);
    return send_all(client->socket, line, strlen(line));
}

static int serve(void) {
    struct sockaddr_in address;
    struct client clients[CLIENTS];
    struct pollfd all[1 + 2 * CLIENTS];
    int server = listening(&address), served = 0, heard = 0;
    if (server < 0) {
        return failed("the server");
    }
    /* 0: the server; then the clients' ends, then the server's ends. */
    for (int at = 0; at < 1 + 2 * CLIENTS; ++at) {
        all[at].fd = -1;
        all[at].events = POLLIN;
    }
    all[0].fd = server;
    memset(clients, 0, sizeof clients);
    for (int at = 0; at < CLIENTS; ++at) {
        all[1 + at].fd = clients[at].socket = connected(&address);
        if (clients[at].socket < 0 || speak(&clients[at], at) != 0) {
            return failed("a client");
        }
    }
    while (heard < CLIENTS) {
        if (poll(all, 1 + 2 * CLIENTS, 20000) <= 0) {
            return failed("poll");
        }
        if (all[0].revents & POLLIN) {
            struct sockaddr_in peer;
            socklen_t bytes = sizeof peer;
            int made = accept(server, (struct sockaddr *)&peer, &bytes);
            char text[INET_ADDRSTRLEN];
            if (made < 0 || inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text) == NULL) {
                return failed("accept");
            }
            printf("a connection from %s, %d bytes of address\n", text, (int)bytes);
            all[1 + CLIENTS + served++].fd = made;
        }
        for (int at = 0; at < CLIENTS; ++at) {
            struct client *client = &clients[at];
            if (all[1 + at].revents == 0) {
                continue;
            }
            ssize_t got = recv(client->socket, client->heard + client->filled, sizeof client->heard - client->filled, 0);
            if (got < 0) {
                return failed("recv");
            }
            client->filled += (size_t)got;
            if (got == 0) {
                ++heard;
                close(client->socket);
                all[1 + at].fd = -1;
            } else if (client->heard[client->filled - 1] == '\n' && speak(client, at) != 0) {
                return failed("a client");
            }
        }
        for (int at = 1 + CLIENTS; at < 1 + CLIENTS + served; ++at) {
            char bytes[7];
            if (all[at].fd < 0 || all[at].revents == 0) {
                continue;
            }
            ssize_t got = read(all[at].fd, bytes, sizeof bytes);
            if (got < 0 || send_all(all[at].fd, bytes, (size_t)got) != 0) {
                return failed("the echo");
            }
            if (got == 0) {
                close(all[at].fd);
                all[at].fd = -1;
            }
        }
    }
    close(server);
    for (int at = 0; at < CLIENTS; ++at) {
        printf("%.*s", (int)clients[at].filled, clients[at].heard);
    }
    return 0;
}

/* Prints a call, its result, and the error where there is one. */
#define SAY(call)                                                                   \
    do {                                                                            \
        long result;                                                                \
        errno = 0;                                                                  \
        result = (long)(call);                                                      \
        printf("%s: %ld %s\n", #call, result, result == -1 ? strerror(errno) : ""); \
    } while (0)

static int pairs(void) {
    char text[16] = "";
    int two[2], number = 0;
    socklen_t bytes = sizeof number;
    struct sockaddr_un name;
    SAY(socketpair(AF_UNIX, SOCK_DGRAM, 0, two));
    SAY(send(two[0], "one message", 11, 0));
    SAY(send(two[0], "another", 7, 0));
    SAY(recv(two[1], text, 4, MSG_PEEK));
    SAY(recv(two[1], text, sizeof text - 1, 0));
    puts(text);
    SAY(recv(two[1], text, 3, MSG_TRUNC));
    SAY(recv(two[1], text, 3, MSG_DONTWAIT));
    SAY(getsockopt(two[0], SOL_SOCKET, SO_TYPE, &number, &bytes));
    printf("a kind: %d, %d bytes\n", number == SOCK_DGRAM, (int)bytes);
    {
        char parts[2][4] = {"", ""};
        struct iovec pieces[2] = {{parts[0], 3}, {parts[1], 3}};
        struct msghdr message;
        memset(&message, 0, sizeof message);
        message.msg_iov = pieces;
        message.msg_iovlen = 2;
        SAY(send(two[0], "in pieces", 9, 0));
        SAY(recvmsg(two[1], &message, 0));
        printf("%s %s, cut: %d\n", parts[0], parts[1], (message.msg_flags & MSG_TRUNC) != 0);
        SAY(sendmsg(two[0], &message, 0));
        SAY(recv(two[1], text, sizeof text - 1, 0));
        message.msg_iovlen = 1025;
        SAY(sendmsg(two[0], &message, 0));
        message.msg_iovlen = 2;
        SAY(recvmsg(STDIN_FILENO + 500, &message, 0));
    }
    SAY(setsockopt(two[0], SOL_SOCKET, 9999, &number, sizeof number));
    bytes = sizeof name;
    SAY(getpeername(two[0], (struct sockaddr *)&name, &bytes));
    printf("a family: %d, %d bytes\n", name.sun_family == AF_UNIX, (int)bytes);
    SAY(listen(two[0], 1));
    SAY(accept(two[0], NULL, NULL));
    SAY(close(two[1]));
    SAY(send(two[0], "gone", 4, MSG_NOSIGNAL));
    SAY(close(two[0]));
    SAY(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    SAY(socket(12345, SOCK_STREAM, 0));
    SAY(shutdown(STDIN_FILENO + 500, SHUT_RDWR));
    return 0;
}

static void messages(void) {
    struct sockaddr_in one, other, sender;
    socklen_t bytes = sizeof one;
    char text[32] = "";
    int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    memset(&one, 0, sizeof one);
    one.sin_family = AF_INET;
    one.sin_addr.s_addr = inet_addr("127.0.0.1");
    other = one;
    SAY(bind(from, (struct sockaddr *)&one, sizeof one));
    SAY(bind(to, (struct sockaddr *)&other, sizeof other));
    SAY(getsockname(from, (struct sockaddr *)&one, &bytes));
    SAY(getsockname(to, (struct sockaddr *)&other, &bytes));
    SAY(sendto(from, "a datagram", 10, 0, (struct sockaddr *)&other, sizeof other));
    SAY(recvfrom(to, text, sizeof text, 0, (struct sockaddr *)&sender, &bytes));
    printf("%s, from the sender: %d\n", text, sender.sin_port == one.sin_port);
    SAY(close(from));
    SAY(close(to));
}

static void texts(void) {
    static const char *const six[] = {"::", "::1", "1::", "fe80::1:0:0:2", "::ffff:10.1.2.3", "1:2:3:4:5:6:7:8", "1::2::3", "::1:"};
    unsigned char bytes[16];
    char text[INET6_ADDRSTRLEN];
    struct in_addr four;
    for (size_t at = 0; at < sizeof six / sizeof six[0]; ++at) {
        int taken = inet_pton(AF_INET6, six[at], bytes);
        printf("%s: %d %s\n", six[at], taken, taken == 1 ? inet_ntop(AF_INET6, bytes, text, sizeof text) : "");
    }
    SAY(inet_pton(AF_INET, "10.2.3.256", &four));
    SAY(inet_pton(12345, "10.2.3.4", &four));
    SAY(inet_aton("10.513", &four));
    printf("%s %x %x\n", inet_ntoa(four), (unsigned)htons(0x1234), (unsigned)ntohl(0x12345678));
    printf("%d\n", inet_addr("10.1.2.3.4") == INADDR_NONE);
}

int main(void) {
    int status = serve();
    pairs();
    messages();
    texts();
    return status;
}
