#include "tools/as_rank.hpp"

#include <iostream>
#include <new>

#include "train/heartbeat.hpp"

namespace tete {

[[noreturn]] static void end_all(Comm& comm, const std::string& speaker, int code,
                                 const std::string& sentence) {
  std::cerr << speaker + ": " + comm.name_of(comm.rank()) + ": " + sentence + "\n" << std::flush;
  comm.abort(code);
}

int as_rank(Comm& comm, const std::string& speaker, const std::function<int()>& work) {
  const Heartbeat heartbeat(comm);
  if (comm.size() == 1) return work();
  try {
    return work();
  } catch (const SharedError& error) {
    // Before any rank ends, as the launcher may then end the others.
    if (comm.rank() == 0) std::cerr << speaker << ": " << error.what() << std::endl;
    return static_cast<int>(error.kind());
  } catch (const Error& error) {
    end_all(comm, speaker, static_cast<int>(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    end_all(comm, speaker, static_cast<int>(ErrorKind::resource), "there is not enough memory");
  } catch (const std::exception& error) {
    end_all(comm, speaker, 70, text("a defect of the program: ", error.what()));
  }
}

}  // namespace tete
