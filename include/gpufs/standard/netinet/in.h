/* <netinet/in.h> as Linux has it, where no C library gives it. */
#ifndef GPUFS_STANDARD_NETINET_IN_H
#define GPUFS_STANDARD_NETINET_IN_H

#include <gpufs/standard/sys/socket.h>

#pragma GCC system_header

typedef __UINT16_TYPE__ in_port_t;
typedef __UINT32_TYPE__ in_addr_t;
struct in_addr {
    in_addr_t s_addr;
};
struct sockaddr_in {
    sa_family_t sin_family;
    in_port_t sin_port;
    struct in_addr sin_addr;
    unsigned char sin_zero[8];
};
struct in6_addr {
    union {
        __UINT8_TYPE__ gpufs_bytes[16];
        __UINT16_TYPE__ gpufs_halves[8];
        __UINT32_TYPE__ gpufs_words[4];
    } gpufs_in6;
#define s6_addr gpufs_in6.gpufs_bytes
#define s6_addr16 gpufs_in6.gpufs_halves
#define s6_addr32 gpufs_in6.gpufs_words
};
struct sockaddr_in6 {
    sa_family_t sin6_family;
    in_port_t sin6_port;
    __UINT32_TYPE__ sin6_flowinfo;
    struct in6_addr sin6_addr;
    __UINT32_TYPE__ sin6_scope_id;
};
struct ip_mreq {
    struct in_addr imr_multiaddr;
    struct in_addr imr_interface;
};
struct ipv6_mreq {
    struct in6_addr ipv6mr_multiaddr;
    unsigned ipv6mr_interface;
};

#define INADDR_ANY ((in_addr_t)0)
#define INADDR_BROADCAST ((in_addr_t)0xffffffff)
#define INADDR_NONE ((in_addr_t)0xffffffff)
#define INADDR_LOOPBACK ((in_addr_t)0x7f000001)
#define IN6ADDR_ANY_INIT {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
#define IN6ADDR_LOOPBACK_INIT {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}}
#define INET6_ADDRSTRLEN 46
#define INET_ADDRSTRLEN 16
#define IPPROTO_ICMP 1
#define IPPROTO_ICMPV6 58
#define IPPROTO_IP 0
#define IPPROTO_IPV6 41
#define IPPROTO_RAW 255
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define SOL_IP 0
#define SOL_IPV6 41
#define IP_ADD_MEMBERSHIP 35
#define IP_DROP_MEMBERSHIP 36
#define IP_MULTICAST_IF 32
#define IP_MULTICAST_LOOP 34
#define IP_MULTICAST_TTL 33
#define IP_TOS 1
#define IP_TTL 2
#define IPV6_JOIN_GROUP 20
#define IPV6_LEAVE_GROUP 21
#define IPV6_MULTICAST_HOPS 18
#define IPV6_MULTICAST_IF 17
#define IPV6_MULTICAST_LOOP 19
#define IPV6_TCLASS 67
#define IPV6_UNICAST_HOPS 16
#define IPV6_V6ONLY 26

static const struct in6_addr in6addr_any __attribute__((unused)) = IN6ADDR_ANY_INIT;
static const struct in6_addr in6addr_loopback __attribute__((unused)) = IN6ADDR_LOOPBACK_INIT;

/* byteorder(3): a GPU's words are in little-endian order. */
static __inline__ __UINT16_TYPE__ htons(__UINT16_TYPE__ value) { return __builtin_bswap16(value); }
static __inline__ __UINT16_TYPE__ ntohs(__UINT16_TYPE__ value) { return __builtin_bswap16(value); }
static __inline__ __UINT32_TYPE__ htonl(__UINT32_TYPE__ value) { return __builtin_bswap32(value); }
static __inline__ __UINT32_TYPE__ ntohl(__UINT32_TYPE__ value) { return __builtin_bswap32(value); }

#define IN6_IS_ADDR_UNSPECIFIED(address) \
    (((address)->s6_addr32[0] | (address)->s6_addr32[1] | (address)->s6_addr32[2] | (address)->s6_addr32[3]) == 0)
#define IN6_IS_ADDR_LOOPBACK(address) \
    (((address)->s6_addr32[0] | (address)->s6_addr32[1] | (address)->s6_addr32[2]) == 0 && \
     (address)->s6_addr32[3] == htonl(1))
#define IN6_IS_ADDR_V4MAPPED(address) \
    (((address)->s6_addr32[0] | (address)->s6_addr32[1]) == 0 && (address)->s6_addr32[2] == htonl(0xffff))

#endif
