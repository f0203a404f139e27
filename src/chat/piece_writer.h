// Writes the pieces of text that stand between the markers of a reply, without blanks at the
// markers.
//
// Blanks wait for what follows them: text, and they come out, or a marker, and they are dropped.
// The beginning and the end of a reply are no markers. Pieces of one part are joined by a newline.
// Belongs to its parser; not thread safe; a byte takes constant time.
#pragma once

#include <cstddef>
#include <string>

#include "chat/reply_delta.h"

namespace thaw {

// Beyond, blanks come out although a marker may follow: no reader sees the difference.
inline constexpr size_t kMaxHeldBlanks = 4096;

class PieceWriter {
 public:
  // `writer` must outlive this.
  explicit PieceWriter(DeltaWriter& writer) : writer_(writer) {}

  // `part` is kContent or kReasoning, the same for a whole piece.
  void Write(ReplyPart part, char c);
  // A marker: what follows is another piece.
  void EndPiece();
  // The end of the text.
  void Finish();

  // Takes the blanks that are held; EndPiece would drop them.
  std::string TakeBlanks();
  // The piece has more than blanks.
  bool begun() const { return begun_; }
  // No marker and no text has come.
  bool at_start() const { return !begun_ && !after_marker_; }

 private:
  void WriteBlanks();

  DeltaWriter& writer_;
  ReplyPart part_ = ReplyPart::kContent;
  std::string blanks_;
  bool begun_ = false;
  bool after_marker_ = false;
  bool has_content_ = false;
  bool has_reasoning_ = false;
};

}  // namespace thaw
