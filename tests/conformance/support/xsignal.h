#include <signal.h>
#include "all.h"
